import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Records NAMESRV KIND...: sends messages of these kinds, each with a property "case" that names it, so that the
 * broker has a record of each; prints "done KIND" after each, and what else is worth comparing with ours.
 */
public class Records {
    private static final String TOPIC = "Records";
    private static String namesrv;
    private static DefaultMQProducer producer;

    public static void main(String[] arguments) throws Exception {
        namesrv = arguments[0];
        producer = started(new DefaultMQProducer("records_producer"));
        try {
            for (int index = 1; index < arguments.length; index++) {
                send(arguments[index]);
                System.out.println("done " + arguments[index]);
            }
            System.exit(0);
        } catch (Exception failure) {
            // The threads of the clients would go on.
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void send(String kind) throws Exception {
        switch (kind) {
            case "plain":
                send(message("plain", "hello"));
                break;
            case "keys":
                Message keyed = message("keys", "keyed and tagged");
                keyed.setTags("TagA");
                keyed.setKeys("order-1 order-2");
                send(keyed);
                break;
            case "properties":
                Message rich = message("properties", "中文 😀");
                rich.setTags("中文");
                rich.setFlag(-7);
                rich.setWaitStoreMsgOK(false);
                rich.setBuyerId("buyer");
                rich.putUserProperty("ключ", "значение 😀");
                rich.putUserProperty("a", "b=c; d");
                send(rich);
                break;
            case "bytes":
                Message binary = message("bytes", "");
                byte[] body = new byte[256];
                for (int value = 0; value < body.length; value++) {
                    body[value] = (byte) value;
                }
                binary.setBody(body);
                send(binary);
                break;
            case "batch":
                List<Message> batch = new ArrayList<>();
                for (int number = 0; number < 3; number++) {
                    Message part = message("batch-" + number, "part " + number);
                    part.setTags("Tag" + number);
                    part.setKeys("part-" + number);
                    part.setFlag(number);
                    batch.add(part);
                }
                sent(producer.send(batch));
                break;
            case "delay":
                Message delayed = message("delay", "later");
                delayed.setTags("TagD");
                delayed.setDelayTimeLevel(1);
                send(delayed);
                TimeUnit.SECONDS.sleep(3);
                break;
            case "timer":
                Message timed = message("timer", "in a second");
                Message.class.getMethod("setDelayTimeMs", long.class).invoke(timed, 1500L);
                send(timed);
                TimeUnit.SECONDS.sleep(5);
                break;
            case "zlib":
            case "lz4":
            case "zstd":
                System.setProperty("rocketmq.message.compressType", kind.toUpperCase());
                DefaultMQProducer compressing = new DefaultMQProducer("records_" + kind);
                compressing.setCompressMsgBodyOverHowmuch(64);
                sent(started(compressing).send(message(kind, "again and again, ".repeat(40))));
                compressing.shutdown();
                break;
            case "transaction":
                transaction();
                break;
            case "retry":
                retry("records_group");
                break;
            case "encoded":
                encoded("encoded-born-v6", "::1", "127.0.0.1");
                encoded("encoded-store-v6", "127.0.0.1", "fd00::2");
                break;
            case "names":
                MessageConst.STRING_HASH_SET.stream().sorted().forEach(name -> System.out.println("reserved " + name));
                for (String text : new String[] {"", "a", "TagA", "中文", "😀", "%RETRY%g", "polygenelubricants", "é".repeat(70)}) {
                    System.out.println("hash " + text.hashCode() + " " + text);
                }
                break;
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    /** One is committed, one rolled back, one left open until the broker asks. */
    private static void transaction() throws Exception {
        TransactionMQProducer sender = new TransactionMQProducer("records_transactions");
        sender.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object outcome) {
                return (LocalTransactionState) outcome;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                boolean isDropped = "rollback".equals(message.getUserProperty("case"));
                return isDropped ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        started(sender);
        sent(sender.sendMessageInTransaction(message("commit", "kept"), LocalTransactionState.COMMIT_MESSAGE));
        sent(sender.sendMessageInTransaction(message("rollback", "dropped"), LocalTransactionState.ROLLBACK_MESSAGE));
        sent(sender.sendMessageInTransaction(message("check", "asked for"), LocalTransactionState.UNKNOW));
        TimeUnit.SECONDS.sleep(20);
        sender.shutdown();
    }

    /** Consumed and sent back once, then again, and then it is dead. */
    private static void retry(String group) throws Exception {
        String topic = "Retried";
        Message message = new Message(topic, "TagR", "retry-key", "fails".getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("case", "retry");
        send(message);
        CountDownLatch missing = new CountDownLatch(2);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(1);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            missing.countDown();
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        System.out.println("all retried: " + missing.await(90, TimeUnit.SECONDS));
        TimeUnit.SECONDS.sleep(3);
        consumer.shutdown();
    }

    /** Hosts of two kinds, which no broker on this machine would see; Java's own encoder writes them. */
    private static void encoded(String name, String bornIp, String storeIp) throws Exception {
        MessageExt message = new MessageExt();
        message.setTopic(TOPIC);
        message.setBody(name.getBytes(StandardCharsets.UTF_8));
        message.setBodyCRC(UtilAll.crc32(message.getBody()));
        message.putUserProperty("case", name);
        message.setQueueId(3);
        message.setQueueOffset(5);
        message.setCommitLogOffset(4096);
        message.setBornTimestamp(1700000000000L);
        message.setStoreTimestamp(1700000000005L);
        message.setBornHost(new InetSocketAddress(bornIp, 51234));
        message.setStoreHost(new InetSocketAddress(storeIp, 10911));
        if (bornIp.contains(":")) {
            message.setBornHostV6Flag();
        }
        if (storeIp.contains(":")) {
            message.setStoreHostAddressV6Flag();
        }
        StringBuilder digits = new StringBuilder();
        for (byte value : MessageDecoder.encode(message, false)) {
            digits.append(String.format("%02x", value));
        }
        System.out.println("record " + name + " " + digits);
    }

    private static Message message(String name, String body) {
        Message message = new Message(TOPIC, body.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("case", name);
        return message;
    }

    private static void send(Message message) throws Exception {
        sent(producer.send(message));
    }

    private static void sent(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.toString());
        }
        System.out.println("sent " + result.getMsgId() + " " + result.getOffsetMsgId());
    }

    private static <T extends DefaultMQProducer> T started(T producer) throws Exception {
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(10000);
        producer.start();
        return producer;
    }
}
