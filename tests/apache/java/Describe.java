import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Describe NAMESRV TOPIC GROUP COUNT NAMESPACE: prints the body, id, topic, tags, keys, flag and the properties whose
 * names begin with a small letter of every message, parted by tabs, in the order of bodies. NAMESPACE may be empty.
 */
public class Describe {
    public static void main(String[] arguments) throws Exception {
        CountDownLatch missing = new CountDownLatch(Integer.parseInt(arguments[3]));
        Map<String, String> lines = new ConcurrentSkipListMap<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        if (!arguments[4].isEmpty()) {
            consumer.setNamespace(arguments[4]);
        }
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                if (lines.put(body, describe(body, message)) == null) {
                    missing.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean all = missing.await(60, TimeUnit.SECONDS);
        consumer.shutdown();
        lines.values().forEach(System.out::println);
        System.exit(all ? 0 : 1);
    }

    private static String describe(String body, MessageExt message) {
        Map<String, String> own = new TreeMap<>(message.getProperties());
        own.keySet().removeIf(name -> !Character.isLowerCase(name.charAt(0)));
        String flag = String.valueOf(message.getFlag());
        return String.join("\t", body, message.getMsgId(), message.getTopic(), message.getTags(), message.getKeys(), flag,
            own.toString());
    }
}
