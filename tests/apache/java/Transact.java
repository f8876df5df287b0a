import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transact NAMESRV TOPIC: a message that is committed, one that is rolled back, and two that must be asked about. */
public class Transact {
    public static void main(String[] arguments) throws Exception {
        CountDownLatch asked = new CountDownLatch(2);
        TransactionMQProducer producer = new TransactionMQProducer("transact_producer");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(10000);
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return (LocalTransactionState) argument;
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                System.out.println("asked about " + body + " of " + message.getTopic() + " " + message.getTransactionId());
                asked.countDown();
                return body.endsWith("kept") ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.start();
        send(producer, arguments[1], "kept", LocalTransactionState.COMMIT_MESSAGE);
        send(producer, arguments[1], "dropped", LocalTransactionState.ROLLBACK_MESSAGE);
        send(producer, arguments[1], "asked and kept", LocalTransactionState.UNKNOW);
        send(producer, arguments[1], "asked and dropped", LocalTransactionState.UNKNOW);
        if (!asked.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not asked");
        }
        // The answers leave from other threads.
        Thread.sleep(2000);
        System.out.println("done");
        producer.shutdown();
        System.exit(0);
    }

    private static void send(TransactionMQProducer producer, String topic, String body, LocalTransactionState state)
        throws Exception {
        Message message = new Message(topic, "TagA", body.getBytes(StandardCharsets.UTF_8));
        TransactionSendResult result = producer.sendMessageInTransaction(message, state);
        System.out.println(body + " " + result.getTransactionId() + " " + result.getLocalTransactionState());
    }
}
