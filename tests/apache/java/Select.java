import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Select NAMESRV TOPIC EXPRESSION SENT COUNT SECONDS: consumes by an expression, and sends messages 0, 1, 2... with the
 * property a, half of them before the consumer starts. Prints every body once, sorted, then "consumed COUNT"; or "refused"
 * and why, if the consumer does not start.
 */
public class Select {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int sent = Integer.parseInt(arguments[3]);
        DefaultMQProducer producer = new DefaultMQProducer("select_producer");
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        send(producer, topic, 0, sent / 2);
        CountDownLatch missing = new CountDownLatch(Integer.parseInt(arguments[4]));
        Set<String> bodies = new ConcurrentSkipListSet<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("select_" + topic);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, MessageSelector.bySql(arguments[2]));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (bodies.add(new String(message.getBody(), StandardCharsets.UTF_8))) {
                    missing.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try {
            consumer.start();
        } catch (MQClientException error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            System.out.println("refused " + cause.getMessage().replace('\n', ' '));
            System.exit(2);
        }
        send(producer, topic, sent / 2, sent);
        boolean all = missing.await(Long.parseLong(arguments[5]), TimeUnit.SECONDS);
        consumer.shutdown();
        producer.shutdown();
        bodies.forEach(System.out::println);
        System.out.println("consumed " + bodies.size());
        System.exit(all ? 0 : 1);
    }

    private static void send(DefaultMQProducer producer, String topic, int from, int to) throws Exception {
        for (int number = from; number < to; number++) {
            Message message = new Message(topic, "Tag" + number % 2, String.valueOf(number).getBytes(StandardCharsets.UTF_8));
            message.putUserProperty("a", String.valueOf(number));
            if (number % 3 == 0) {
                message.putUserProperty("third", "it's");
            }
            producer.send(message);
        }
    }
}
