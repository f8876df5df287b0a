// Java's benchmark Producer, which sends no more at once than it is told. Without a bound its asynchronous mode hands
// over far more than two cores can send, until all of it is too late; and of its options none is such a bound.

import java.lang.reflect.Field;
import java.util.Map;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.MQProducerInner;
import org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.example.benchmark.Producer;

public class BoundedProducer {
    public static void main(String[] arguments) throws Exception {
        Thread bounding = new Thread(BoundedProducer::bound);
        bounding.setDaemon(true);
        bounding.start();
        Producer.main(arguments);
    }

    // The Producer keeps its client to itself, so that it is waited for where all clients of a process are known.
    private static void bound() {
        try {
            Field factories = MQClientManager.class.getDeclaredField("factoryTable");
            factories.setAccessible(true);
            Map<?, ?> table = (Map<?, ?>) factories.get(MQClientManager.getInstance());
            while (true) {
                for (Object client : table.values()) {
                    MQProducerInner found = ((MQClientInstance) client).selectProducer("benchmark_producer");
                    if (found != null) {
                        DefaultMQProducer producer = ((DefaultMQProducerImpl) found).getDefaultMQProducer();
                        producer.setBackPressureForAsyncSendNum(Integer.getInteger("inFlightMax"));
                        producer.setEnableBackpressureForAsyncMode(true);
                        return;
                    }
                }
                Thread.sleep(1);
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }
}
