import java.security.MessageDigest;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Collect NAMESRV TOPIC GROUP COUNT SECONDS: prints the unique id, queue, queue offset and the SHA-256 of the body of
 * every message, parted by tabs, then "collected COUNT". Ends when there are COUNT, or after SECONDS with code 1.
 */
public class Collect {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[3]);
        CountDownLatch missing = new CountDownLatch(count);
        Map<String, String> found = new ConcurrentSkipListMap<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (found.put(((MessageClientExt) message).getOffsetMsgId(), line(message)) == null) {
                    missing.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean all = missing.await(Long.parseLong(arguments[4]), TimeUnit.SECONDS);
        consumer.shutdown();
        found.values().forEach(System.out::println);
        System.out.println("collected " + found.size());
        System.exit(all ? 0 : 1);
    }

    private static String line(MessageExt message) {
        StringBuilder line = new StringBuilder(message.getMsgId());
        line.append('\t').append(message.getQueueId()).append('\t').append(message.getQueueOffset()).append('\t');
        try {
            for (byte octet : MessageDigest.getInstance("SHA-256").digest(message.getBody())) {
                line.append(String.format("%02x", octet));
            }
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
        return line.toString();
    }
}
