import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Spread NAMESRV TOPIC COUNT: sends COUNT messages to all queues of the topic in turn, of which there have to be eight,
 * and consumes them. Prints "sent, broker, body" and "consumed, broker, body", parted by tabs, then "ended".
 */
public class Spread {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[2]);
        List<String> consumed = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("spread_consumers");
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setInstanceName("consumer");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> consumed.add("consumed\t" + message.getBrokerName() + "\t"
                + new String(message.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = new DefaultMQProducer("spread_producers");
        producer.setNamesrvAddr(arguments[0]);
        producer.setInstanceName("producer");
        producer.setSendMsgTimeout(10000);
        producer.start();
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(arguments[1]);
        while (queues.size() < 8) {
            Thread.sleep(200);
            queues = producer.fetchPublishMessageQueues(arguments[1]);
        }
        for (int number = 0; number < count; number++) {
            MessageQueue queue = queues.get(number % queues.size());
            Message message = new Message(arguments[1], ("body " + number).getBytes(StandardCharsets.UTF_8));
            producer.send(message, queue);
            System.out.println("sent\t" + queue.getBrokerName() + "\tbody " + number);
        }
        for (int round = 0; round < 600 && consumed.size() < count; round++) {
            Thread.sleep(100);
        }
        consumed.forEach(System.out::println);
        System.out.println("ended");
        System.exit(0);
    }
}
