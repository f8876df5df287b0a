import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Replies NAMESRV TOPIC: prints "ready", and replies to each request with "re: " and its body until it is killed.
 * Replies NAMESRV TOPIC BODY: requests with this body, and prints the reply.
 */
public class Replies {
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("repliers");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(10000);
        producer.start();
        if (arguments.length > 2) {
            byte[] body = arguments[2].getBytes(StandardCharsets.UTF_8);
            Message reply = producer.request(new Message(arguments[1], body), 60000);
            System.out.println(new String(reply.getBody(), StandardCharsets.UTF_8));
            System.exit(0);
        }
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("replying");
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> reply(producer, messages));
        consumer.start();
        System.out.println("ready");
    }

    private static ConsumeConcurrentlyStatus reply(DefaultMQProducer producer, List<MessageExt> messages) {
        for (MessageExt message : messages) {
            try {
                String text = "re: " + new String(message.getBody(), StandardCharsets.UTF_8);
                producer.send(MessageUtil.createReplyMessage(message, text.getBytes(StandardCharsets.UTF_8)));
            } catch (Exception failure) {
                failure.printStackTrace();
            }
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }
}
