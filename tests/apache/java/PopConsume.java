import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * PopConsume NAMESRV TOPIC GROUP COUNT SECONDS [FAILS]: leaves the queues to the broker; the bodies that end with FAILS
 * fail the first time. Prints every body once, sorted, then "consumed COUNT retried COUNT doubled COUNT".
 */
public class PopConsume {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[3]);
        String fails = arguments.length > 5 ? arguments[5] : null;
        CountDownLatch missing = new CountDownLatch(count);
        Set<String> bodies = new ConcurrentSkipListSet<>();
        Set<String> failed = ConcurrentHashMap.newKeySet();
        AtomicInteger retried = new AtomicInteger();
        AtomicInteger doubled = new AtomicInteger();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setClientRebalance(false);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                if (fails != null && body.endsWith(fails) && failed.add(body)) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                if (message.getReconsumeTimes() > 0) {
                    retried.incrementAndGet();
                }
                if (bodies.add(body)) {
                    missing.countDown();
                } else {
                    doubled.incrementAndGet();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean all = missing.await(Long.parseLong(arguments[4]), TimeUnit.SECONDS);
        // What was consumed is acked in the background.
        Thread.sleep(2000);
        consumer.shutdown();
        bodies.forEach(System.out::println);
        System.out.println("consumed " + bodies.size() + " retried " + retried + " doubled " + doubled);
        System.exit(all ? 0 : 1);
    }
}
