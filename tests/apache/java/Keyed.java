import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Keyed NAMESRV TOPIC COUNT: sends COUNT messages with keys, one after the other, and prints for each its unique key,
 * physical offset, store topic and keys, parted by tabs. Before that it subscribes with SQL92, and waits for the first.
 */
public class Keyed {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        DefaultMQProducer producer = new DefaultMQProducer("keyed_producer");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(10000);
        producer.start();
        producer.send(new Message(topic, "first".getBytes(StandardCharsets.UTF_8)));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("keyed_consumer");
        consumer.setNamesrvAddr(arguments[0]);
        consumer.subscribe(topic, MessageSelector.bySql("a > 1 AND b = 'it''s'"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
            ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        int count = Integer.parseInt(arguments[2]);
        for (int number = 0; number < count; number++) {
            String keys = number % 4 == 3 ? "" : "order-" + number + (number % 2 == 0 ? "  shared" : " größe");
            Message message = new Message(topic, "TagA", keys, ("body " + number).getBytes(StandardCharsets.UTF_8));
            if (number % 10 == 9) {
                message.setDelayTimeLevel(18);
            }
            SendResult result = producer.send(message);
            String id = result.getOffsetMsgId();
            long offset = Long.parseLong(id.substring(id.length() - 16), 16);
            String stored = number % 10 == 9 ? "SCHEDULE_TOPIC_XXXX" : topic;
            System.out.println(result.getMsgId() + "\t" + offset + "\t" + stored + "\t" + keys);
        }
        // Until the heartbeat has brought the expression to the broker, and the offsets are kept.
        Thread.sleep(Long.parseLong(arguments[3]));
        consumer.shutdown();
        producer.shutdown();
        System.out.println("sent " + count);
        System.exit(0);
    }
}
