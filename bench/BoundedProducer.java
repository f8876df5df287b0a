// Java's benchmark Producer with a limit on messages in flight. Without a limit, its asynchronous mode submits far more
// messages than two cores can send, until all of them time out. The Producer has no option for such a limit.

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
        Thread thread = new Thread(BoundedProducer::bound);
        thread.setDaemon(true);
        thread.start();
        Producer.main(arguments);
    }

    // The Producer does not expose its client, so this thread waits for it in the table of all clients of the process.
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
