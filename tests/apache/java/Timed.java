import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** Timed NAMESRV TOPIC COUNT MILLIS: sends COUNT messages to be delivered in MILLIS, and recalls the last of them. */
public class Timed {
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("timed_producer");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(10000);
        producer.start();
        int count = Integer.parseInt(arguments[2]);
        long deliver = System.currentTimeMillis() + Long.parseLong(arguments[3]);
        String handle = null;
        for (int number = 0; number < count; number++) {
            Message message = new Message(arguments[1], ("there " + number).getBytes(StandardCharsets.UTF_8));
            message.setDeliverTimeMs(deliver);
            SendResult result = producer.send(message);
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException(result.toString());
            }
            handle = result.getRecallHandle();
            System.out.println("handle " + handle);
        }
        producer.recallMessage(arguments[1], handle);
        System.out.println("sent " + count + " for " + deliver);
        producer.shutdown();
        System.exit(0);
    }
}
