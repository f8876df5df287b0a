import java.lang.reflect.Method;
import java.util.Random;
import org.apache.rocketmq.client.impl.MQAdminImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Times NAMESRV TOPIC COUNT: sends COUNT messages to one queue, some in the same millisecond, some after a pause. Then
 * asks for the offset of each millisecond and prints "TIME OFFSET"; of 5.x "TIME LOWER UPPER", since it knows both.
 */
public class Times {
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("times_producer");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(10000);
        producer.start();
        producer.send(new Message(arguments[1], new byte[10]));
        MessageQueue queue = producer.fetchPublishMessageQueues(arguments[1]).get(0);
        Random chance = new Random(1);
        int count = Integer.parseInt(arguments[2]);
        long begin = System.currentTimeMillis();
        for (int number = 0; number < count; number++) {
            if (producer.send(new Message(arguments[1], new byte[10]), queue).getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("not stored");
            }
            if (number % 3 == 0) {
                Thread.sleep(chance.nextInt(20));
            }
        }
        long end = System.currentTimeMillis();
        while (producer.maxOffset(queue) < count) {
            Thread.sleep(10);
        }
        MQAdminImpl admin = producer.getDefaultMQProducerImpl().getMqClientFactory().getMQAdminImpl();
        Method bounded = null;
        for (Method method : MQAdminImpl.class.getMethods()) {
            if (method.getName().equals("searchOffset") && method.getParameterCount() == 3) {
                bounded = method;
            }
        }
        for (long time = begin - 500; time < end + 30; time += time < begin - 5 ? 99 : 1) {
            String line = time + " " + admin.searchOffset(queue, time);
            if (bounded != null) {
                Object upper = bounded.getParameterTypes()[2].getEnumConstants()[1];
                line += " " + bounded.invoke(admin, queue, time, upper);
            }
            System.out.println(line);
        }
        System.out.println("queue " + queue.getQueueId());
        producer.shutdown();
        System.exit(0);
    }
}
