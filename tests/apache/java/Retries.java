import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Retries NAMESRV TOPIC: sends a batch of three, whose consumer refuses each until it is a dead letter after one
 * retry, and asks for a reply. Prints what happened, a line each.
 */
public class Retries {
    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        DefaultMQProducer producer = new DefaultMQProducer("retries_producer");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(10000);
        producer.start();

        List<Message> batch = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            batch.add(new Message(topic, "TagA", "key" + number, ("body " + number).getBytes(StandardCharsets.UTF_8)));
        }
        SendResult result = producer.send(batch);
        System.out.println("batch " + result.getSendStatus() + " " + result.getMsgId().split(",").length);

        CountDownLatch tried = new CountDownLatch(6);
        DefaultMQPushConsumer refusing = consumer(namesrv, "refusing_" + topic, topic);
        refusing.setMaxReconsumeTimes(1);
        refusing.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                System.out.println("refused " + message.getTopic() + " " + message.getReconsumeTimes() + " "
                    + new String(message.getBody(), StandardCharsets.UTF_8));
                tried.countDown();
            }
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        refusing.start();
        System.out.println("tried " + tried.await(60, TimeUnit.SECONDS));

        DefaultMQProducer answering = new DefaultMQProducer("answering_producer");
        answering.setNamesrvAddr(namesrv);
        answering.setInstanceName("answering");
        answering.start();
        // Makes the topic, of which a consumer that was there before would hear only after half a minute.
        producer.send(new Message(topic + "_requests", "no request".getBytes(StandardCharsets.UTF_8)));
        DefaultMQPushConsumer responder = consumer(namesrv, "responder_" + topic, topic + "_requests");
        responder.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (message.getProperty("REPLY_TO_CLIENT") == null) {
                    continue;
                }
                try {
                    answering.send(MessageUtil.createReplyMessage(message, "pong".getBytes(StandardCharsets.UTF_8)));
                } catch (Exception failure) {
                    System.out.println("reply failed: " + failure);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        responder.start();
        try {
            Message reply = producer.request(
                new Message(topic + "_requests", "ping".getBytes(StandardCharsets.UTF_8)), 30000);
            System.out.println("reply " + new String(reply.getBody(), StandardCharsets.UTF_8));
        } catch (Exception failure) {
            System.out.println("no reply: " + failure);
        }
        System.exit(0);
    }

    private static DefaultMQPushConsumer consumer(String namesrv, String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        return consumer;
    }
}
