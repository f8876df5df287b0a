import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Kinds NAMESRV TOPIC PREFIX COUNT TIMERS: sends a few messages of every kind, timers only if TIMERS is true, then COUNT
 * plain ones. Prints for each its kind, unique id, offset id, queue offset, the SHA-256 of its body and its keys,
 * parted by tabs, then "sent"; of a transaction the client does not tell the offset id, which is "null". Messages of
 * different PREFIX have different keys and bodies.
 */
public class Kinds {
    private static String namesrv;
    private static String topic;
    private static String prefix;
    private static int number;

    public static void main(String[] arguments) {
        namesrv = arguments[0];
        topic = arguments[1];
        prefix = arguments[2];
        try {
            DefaultMQProducer producer = start(new DefaultMQProducer("kinds_plain"), Integer.MAX_VALUE);
            sendTransactions();
            sendDelayed(producer);
            if (Boolean.parseBoolean(arguments[4])) {
                sendTimers(producer);
            }
            sendBatch(producer);
            sendCompressed();
            sendLarge(producer);
            for (int count = Integer.parseInt(arguments[3]); count > 0; count--) {
                send(producer, "plain", message(text(20)));
            }
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1);
        }
        System.out.println("sent");
        System.exit(0);
    }

    private static <P extends DefaultMQProducer> P start(P producer, int compressedFrom) throws Exception {
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(10000);
        // A message that is sent twice would be there twice.
        producer.setRetryTimesWhenSendFailed(0);
        producer.setCompressMsgBodyOverHowmuch(compressedFrom);
        producer.start();
        return producer;
    }

    private static void sendTransactions() throws Exception {
        TransactionMQProducer producer = start(new TransactionMQProducer("kinds_transactions"), Integer.MAX_VALUE);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object wanted) {
                return (LocalTransactionState) wanted;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        for (int round = 0; round < 2; round++) {
            sendTransaction(producer, "committed", LocalTransactionState.COMMIT_MESSAGE);
            sendTransaction(producer, "rolled back", LocalTransactionState.ROLLBACK_MESSAGE);
            sendTransaction(producer, "pending", LocalTransactionState.UNKNOW);
        }
    }

    private static void sendTransaction(TransactionMQProducer producer, String kind, LocalTransactionState wanted)
        throws Exception {
        Message message = message(text(20));
        print(kind, producer.sendMessageInTransaction(message, wanted), message);
    }

    private static void sendDelayed(DefaultMQProducer producer) throws Exception {
        for (int round = 0; round < 3; round++) {
            Message soon = message(text(20));
            soon.setDelayTimeLevel(1);
            send(producer, "delayed", soon);
            Message late = message(text(20));
            late.setDelayTimeLevel(18);
            send(producer, "delayed long", late);
        }
    }

    private static void sendTimers(DefaultMQProducer producer) throws Exception {
        for (int round = 0; round < 3; round++) {
            send(producer, "timer", timer(2000));
            send(producer, "timer long", timer(3600000));
        }
    }

    private static Message timer(long millis) throws Exception {
        Message message = message(text(20));
        String deliver = String.valueOf(System.currentTimeMillis() + millis);
        MessageAccessor.putProperty(message, "TIMER_DELIVER_MS", deliver);
        return message;
    }

    private static void sendBatch(DefaultMQProducer producer) throws Exception {
        List<Message> batch = new ArrayList<>();
        for (int part = 0; part < 5; part++) {
            batch.add(message(text(20 + part)));
        }
        SendResult result = producer.send(batch);
        String[] ids = result.getMsgId().split(",");
        String[] offsetIds = result.getOffsetMsgId().split(",");
        for (int part = 0; part < batch.size(); part++) {
            print("batch", ids[part], offsetIds[part], result.getQueueOffset() + part, batch.get(part));
        }
    }

    private static void sendCompressed() throws Exception {
        for (String type : new String[] {"ZLIB", "LZ4", "ZSTD"}) {
            // It is read when a producer is made.
            System.setProperty("rocketmq.message.compressType", type);
            DefaultMQProducer producer = start(new DefaultMQProducer("kinds_" + type), 100);
            send(producer, "compressed", message(text(5000)));
            send(producer, "compressed", message(text(300000)));
        }
    }

    private static void sendLarge(DefaultMQProducer producer) throws Exception {
        Random chance = new Random(prefix.hashCode());
        for (int round = 0; round < 8; round++) {
            byte[] body = new byte[200000 + 40000 * round];
            chance.nextBytes(body);
            send(producer, "large", message(body));
        }
    }

    private static byte[] text(int size) {
        String line = prefix + " größe " + number + "; ";
        String all = String.join("", Collections.nCopies(size / line.length() + 1, line));
        return all.getBytes(StandardCharsets.UTF_8);
    }

    private static Message message(byte[] body) {
        String keys = prefix + "-" + number + (number % 20 == 0 ? " shared" : "") + " größe-" + prefix + number % 50;
        Message message = new Message(topic, number % 3 == 0 ? "TagA" : "Größe", keys, body);
        message.putUserProperty("number", String.valueOf(number));
        message.putUserProperty("größe", "𝄞 ü€ ");
        message.setFlag(number);
        number++;
        return message;
    }

    private static void send(DefaultMQProducer producer, String kind, Message message) throws Exception {
        // A producer puts the compressed body into the message while it sends it.
        print(kind, producer.send(message), message);
    }

    private static void print(String kind, SendResult result, Message message) throws Exception {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.toString());
        }
        print(kind, result.getMsgId(), result.getOffsetMsgId(), result.getQueueOffset(), message);
    }

    private static void print(String kind, String id, String offsetId, long queueOffset, Message message)
        throws Exception {
        StringBuilder digest = new StringBuilder();
        for (byte octet : MessageDigest.getInstance("SHA-256").digest(message.getBody())) {
            digest.append(String.format("%02x", octet));
        }
        String where = String.valueOf(offsetId);
        String keys = message.getKeys();
        System.out.println(String.join("\t", kind, id, where, String.valueOf(queueOffset), digest, keys));
        System.out.flush();
    }
}
