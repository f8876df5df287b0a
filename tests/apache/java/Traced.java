import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Traced NAMESRV TOPIC GROUP: sends a message and consumes it, both traced; prints "id " and its id. */
public class Traced {
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("traced_producer", true, null);
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(10000);
        producer.start();
        byte[] body = "traced".getBytes(StandardCharsets.UTF_8);
        String id = producer.send(new Message(arguments[1], "TagA", "traced-key", body)).getMsgId();

        CountDownLatch missing = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2], true, null);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            missing.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean all = missing.await(60, TimeUnit.SECONDS);
        // What came of the message is traced after the listener has returned.
        Thread.sleep(1000);
        consumer.shutdown();
        producer.shutdown();
        System.out.println("id " + id);
        System.exit(all ? 0 : 1);
    }
}
