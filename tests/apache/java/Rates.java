import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Rates NAMESRV TOPIC MODE BODY_SIZE WARM_UP SECONDS, or NAMESRV TOPIC push GROUP SKIP COUNT: prints
 * "measured COUNT SECONDS CPU_SECONDS", as bench/client_ours.py does.
 */
public class Rates {
    static final int AT_ONCE = 256;
    static final int BATCH_SIZE = 16;

    static final AtomicLong done = new AtomicLong();
    static final AtomicLong bytes = new AtomicLong();
    static final OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    static volatile long began;
    static volatile long cpu;

    public static void main(String[] arguments) throws Exception {
        if (arguments[2].equals("push")) {
            consume(arguments[0], arguments[1], arguments[3], Long.parseLong(arguments[4]), Long.parseLong(arguments[5]));
        } else {
            send(arguments[0], arguments[1], arguments[2], Integer.parseInt(arguments[3]),
                Double.parseDouble(arguments[4]), Double.parseDouble(arguments[5]));
        }
        System.exit(0);
    }

    static void send(String namesrv, String topic, String mode, int size, double warmUp, double seconds) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench_producer");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(30000);
        producer.setAutoBatch(mode.equals("auto"));
        producer.start();
        byte[] body = new byte[size];
        // With the first, the topic's route is known; hundreds that ask for it at once are too much for it.
        producer.send(new Message(topic, body));
        Work work;
        if (mode.equals("batches")) {
            work = () -> {
                List<Message> batch = new ArrayList<>(BATCH_SIZE);
                for (int number = 0; number < BATCH_SIZE; number++) {
                    batch.add(new Message(topic, body));
                }
                producer.send(batch);
                done.addAndGet(BATCH_SIZE);
            };
        } else if (mode.equals("many") || mode.equals("auto")) {
            Semaphore free = new Semaphore(AT_ONCE);
            SendCallback callback = new SendCallback() {
                public void onSuccess(SendResult result) {
                    done.incrementAndGet();
                    free.release();
                }

                public void onException(Throwable error) {
                    fail(error);
                }
            };
            work = () -> {
                free.acquire();
                producer.send(new Message(topic, body), callback);
            };
        } else {
            work = () -> {
                producer.send(new Message(topic, body));
                done.incrementAndGet();
            };
        }
        for (int number = 0; number < (mode.equals("threads") ? AT_ONCE : 1); number++) {
            Thread thread = new Thread(() -> {
                try {
                    while (true) {
                        work.once();
                    }
                } catch (Exception error) {
                    fail(error);
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        while (done.get() == 0) {
            Thread.sleep(10);
        }
        Thread.sleep((long) (warmUp * 1000));
        long first = done.get();
        mark();
        Thread.sleep((long) (seconds * 1000));
        say(done.get() - first);
    }

    static void consume(String namesrv, String topic, String group, long skip, long count) throws Exception {
        CountDownLatch complete = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                bytes.addAndGet(message.getBody().length);
                long seen = done.incrementAndGet();
                if (seen == skip) {
                    mark();
                } else if (seen == count) {
                    say(count - skip);
                    complete.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        complete.await();
        consumer.shutdown();
    }

    static void mark() {
        began = System.nanoTime();
        cpu = system.getProcessCpuTime();
    }

    static void say(long count) {
        double seconds = (System.nanoTime() - began) / 1e9;
        System.out.printf(Locale.ROOT, "measured %d %.6f %.6f%n", count, seconds, (system.getProcessCpuTime() - cpu) / 1e9);
    }

    static void fail(Throwable error) {
        error.printStackTrace();
        System.out.flush();
        Runtime.getRuntime().halt(1);
    }

    interface Work {
        void once() throws Exception;
    }
}
