import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Settle NAMESRV TOPIC GROUP: commits whatever the broker asks this group about and prints its unique id, until killed. */
public class Settle {
    public static void main(String[] arguments) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(arguments[2]);
        producer.setNamesrvAddr(arguments[0]);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                System.out.println("asked " + message.getTransactionId());
                System.out.flush();
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        // A broker asks only those whose heartbeat it has had; the next would come in half a minute.
        MQClientInstance client = producer.getDefaultMQProducerImpl().getMqClientFactory();
        client.updateTopicRouteInfoFromNameServer(arguments[1]);
        client.sendHeartbeatToAllBrokerWithLock();
        System.out.println("ready");
        Thread.currentThread().join();
    }
}
