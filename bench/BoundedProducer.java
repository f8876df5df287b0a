// Java's benchmark Producer, run once for each topic of `-t a,b,c`, with a limit on messages in flight. Without a limit,
// its asynchronous mode submits far more messages than two cores can send, until all of them time out. The Producer has
// neither an option for such a limit nor one for several topics.

import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.MQProducerInner;
import org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.example.benchmark.Producer;

public class BoundedProducer {
    public static void main(String[] arguments) throws Exception {
        Field factories = MQClientManager.class.getDeclaredField("factoryTable");
        factories.setAccessible(true);
        Map<?, ?> clients = (Map<?, ?>) factories.get(MQClientManager.getInstance());
        int topicAt = Arrays.asList(arguments).indexOf("-t") + 1;
        Set<Object> bounded = new HashSet<>();
        int count = 0;
        for (String topic : arguments[topicAt].split(",")) {
            String[] own = arguments.clone();
            own[topicAt] = topic;
            new Thread(() -> produce(own)).start();
            count++;
            // The Producer names its client after the time in milliseconds, so the next one starts later than this one.
            do {
                Thread.sleep(1);
                bound(clients, bounded);
            } while (bounded.size() < count);
        }
    }

    private static void produce(String[] arguments) {
        try {
            Producer.main(arguments);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    // The Producer does not expose its client, which is found in the table of all clients of the process.
    private static void bound(Map<?, ?> clients, Set<Object> bounded) {
        for (Object client : clients.values()) {
            MQProducerInner found = ((MQClientInstance) client).selectProducer("benchmark_producer");
            if (found != null && bounded.add(client)) {
                DefaultMQProducer producer = ((DefaultMQProducerImpl) found).getDefaultMQProducer();
                producer.setBackPressureForAsyncSendNum(Integer.getInteger("inFlightMax"));
                producer.setEnableBackpressureForAsyncMode(true);
            }
        }
    }
}
