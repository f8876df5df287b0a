import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Attend NAMESRV TOPIC GROUP BROKER COUNT: sends COUNT messages, the first to queue 0, the next to queue 1 and so on,
 * and one to TOPIC_one; consumes TOPIC as GROUP with traces of both; prints "sent", the unique id and the offset id of the
 * first and the offset id of the last; then "attending", and stays connected with both its groups until it is ended.
 */
public class Attend {
    private static final int QUEUES = 4;

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[4]);
        CountDownLatch missing = new CountDownLatch(count);
        DefaultMQProducer producer = new DefaultMQProducer("compat_producer", true);
        producer.setNamesrvAddr(arguments[0]);
        producer.setClientIP("192.0.2.7");
        producer.setInstanceName("sender");
        producer.setSendMsgTimeout(10000);
        producer.start();
        SendResult first = null;
        for (int number = 0; number < count; number++) {
            byte[] body = ("body " + number).getBytes(StandardCharsets.UTF_8);
            Message message = new Message(arguments[1], "TagA", "key" + number, body);
            SendResult result = producer.send(message, new MessageQueue(arguments[1], arguments[3], number % QUEUES));
            if (number == 0) {
                first = result;
            }
        }
        byte[] alone = "alone".getBytes(StandardCharsets.UTF_8);
        String oneTopic = arguments[1] + "_one";
        MessageQueue oneQueue = new MessageQueue(oneTopic, arguments[3], 0);
        SendResult one = producer.send(new Message(oneTopic, "TagA", "alone", alone), oneQueue);
        System.out.println("sent " + first.getMsgId() + " " + first.getOffsetMsgId() + " " + one.getOffsetMsgId());
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2], true);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setClientIP("192.0.2.7");
        consumer.setInstanceName("attendant");
        // Settings of the machine would otherwise show: there is a thread for each processor.
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> missing.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.shutdown();
            producer.shutdown();
        }));
        if (!missing.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException(missing.getCount() + " messages did not come");
        }
        // Every five seconds it would do so by itself.
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        System.out.println("attending");
        Thread.sleep(Long.MAX_VALUE);
    }
}
