import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** Produce NAMESRV TOPIC COUNT: sends COUNT messages and prints the id of each, then "sent COUNT". */
public class Produce {
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("compat_producer");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(10000);
        producer.start();
        int count = Integer.parseInt(arguments[2]);
        for (int number = 0; number < count; number++) {
            byte[] body = ("body " + number).getBytes(StandardCharsets.UTF_8);
            SendResult result = producer.send(new Message(arguments[1], "TagA", "key" + number, body));
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException(result.toString());
            }
            System.out.println(result.getMsgId());
        }
        System.out.println("sent " + count);
        producer.shutdown();
        System.exit(0);
    }
}
