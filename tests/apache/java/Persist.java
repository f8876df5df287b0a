import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Persist NAMESRV TOPIC BROKER QUEUES STOP: to each queue one thread sends "QUEUE NUMBER", again until it is
 * acknowledged, then the next, and prints "acknowledged QUEUE NUMBER OFFSET". A consumer takes them all meanwhile.
 * When the file STOP is there the threads end; when the consumer has had every message, "consumed COUNT" is printed.
 */
public class Persist {
    private static final Set<String> CONSUMED = ConcurrentHashMap.newKeySet();
    private static final Set<String> ACKNOWLEDGED = ConcurrentHashMap.newKeySet();

    public static void main(String[] arguments) throws Exception {
        Path stop = Paths.get(arguments[4]);
        DefaultMQPushConsumer consumer = consumer(arguments[0], arguments[1]);
        DefaultMQProducer producer = new DefaultMQProducer("persist_producers");
        producer.setInstanceName("producer");
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        List<Thread> threads = new ArrayList<>();
        for (int queue = 0; queue < Integer.parseInt(arguments[3]); queue++) {
            MessageQueue target = new MessageQueue(arguments[1], arguments[2], queue);
            Thread thread = new Thread(() -> produce(producer, target, stop));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("ended");
        while (!CONSUMED.containsAll(ACKNOWLEDGED)) {
            Thread.sleep(50);
        }
        System.out.println("consumed " + CONSUMED.size());
        consumer.shutdown();
        producer.shutdown();
        System.exit(0);
    }

    private static DefaultMQPushConsumer consumer(String namesrv, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("persist_consumers");
        consumer.setInstanceName("consumer");
        consumer.setNamesrvAddr(namesrv);
        // A broker that starts anew knows no consumer, and refuses it until its next heartbeat, after 30 s by default.
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                CONSUMED.add(new String(message.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    private static void produce(DefaultMQProducer producer, MessageQueue target, Path stop) {
        for (int number = 0; !Files.exists(stop); number++) {
            String body = target.getQueueId() + " " + number;
            long offset = -1;
            while (offset < 0) {
                offset = send(producer, target, body);
            }
            ACKNOWLEDGED.add(body);
            System.out.println("acknowledged " + body + " " + offset);
        }
    }

    /** Returns the offset in the queue, or -1 if the broker did not acknowledge. */
    private static long send(DefaultMQProducer producer, MessageQueue target, String body) {
        try {
            Message message = new Message(target.getTopic(), body.getBytes(StandardCharsets.UTF_8));
            SendResult result = producer.send(message, target, 3000);
            return result.getSendStatus() == SendStatus.SEND_OK ? result.getQueueOffset() : -1;
        } catch (Exception failure) {
            try {
                Thread.sleep(10);
            } catch (InterruptedException end) {
                throw new IllegalStateException(end);
            }
            return -1;
        }
    }
}
