import java.io.File;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Features NAMESRV PREFIX FEATURE...: tries what this client can do, each feature with a topic and groups of its own,
 * and prints for each a line "FEATURE, ok or failed, what was seen", parted by tabs. The topics PREFIX_FEATURE are there
 * already, on two brokers with four queues each, and the brokers' delays of level 2 and 3 are two seconds and one.
 *
 * <p>"Features NAMESRV member TOPIC GROUP" is a consumer that prints what it is given until it is killed.
 */
public class Features {
    private static final int COUNT = 16;
    private static final long SECONDS = 60;

    private static String namesrv;
    private static String prefix;
    private static DefaultMQProducer producer;

    interface Feature {
        String run(String topic) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        namesrv = arguments[0];
        if (arguments[1].equals("member")) {
            beMember(arguments[2], arguments[3]);
            return;
        }
        prefix = arguments[1];
        producer = new DefaultMQProducer(prefix + "_producers");
        start(producer, "producer");
        ExecutorService threads = Executors.newFixedThreadPool(6);
        Map<String, Feature> features = features();
        for (String name : arguments.length > 2 ? Arrays.copyOfRange(arguments, 2, arguments.length)
            : features.keySet().toArray(new String[0])) {
            threads.execute(() -> attempt(name, features.get(name)));
        }
        threads.shutdown();
        threads.awaitTermination(10, TimeUnit.MINUTES);
        System.out.println("ended");
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Feature> features() {
        Map<String, Feature> features = new LinkedHashMap<>();
        features.put("rebalancing", Features::rebalancing);
        features.put("offset reset", Features::offsetReset);
        features.put("retry to DLQ", Features::retryToDeadLetters);
        features.put("transaction unknown, then checked", Features::transactionChecked);
        features.put("send sync", Features::sendSync);
        features.put("send async", Features::sendAsync);
        features.put("send oneway", Features::sendOneway);
        features.put("send batch", Features::sendBatch);
        features.put("send ordered", Features::sendOrdered);
        features.put("send delayed", Features::sendDelayed);
        features.put("send keyed", Features::sendKeyed);
        features.put("send compressed", Features::sendCompressed);
        features.put("transaction committed", Features::transactionCommitted);
        features.put("transaction rolled back", Features::transactionRolledBack);
        features.put("request-reply", Features::requestReply);
        features.put("push concurrently", Features::pushConcurrently);
        features.put("push orderly", Features::pushOrderly);
        features.put("pull", Features::pull);
        features.put("lite pull", Features::litePull);
        features.put("broadcast", Features::broadcast);
        features.put("by tags", Features::byTags);
        features.put("by SQL92", Features::bySql);
        return features;
    }

    private static void attempt(String name, Feature feature) {
        String result;
        try {
            result = "ok\t" + feature.run(prefix + "_" + name.replaceAll("[^A-Za-z0-9]+", "_"));
        } catch (Throwable failure) {
            failure.printStackTrace();
            result = "failed\t" + String.valueOf(failure).replaceAll("\\s+", " ");
        }
        System.out.println(name + "\t" + result);
    }

    // Sending

    private static String sendSync(String topic) throws Exception {
        Seen seen = consume(topic);
        Set<String> brokers = new TreeSet<>();
        for (int number = 0; number < COUNT; number++) {
            SendResult result = ok(producer.send(message(topic, number)));
            brokers.add(result.getMessageQueue().getBrokerName());
        }
        seen.expect(COUNT);
        check(brokers.size() == 2, "all went to " + brokers);
        return COUNT + " over " + brokers.size() + " brokers";
    }

    private static String sendAsync(String topic) throws Exception {
        Seen seen = consume(topic);
        CountDownLatch answered = new CountDownLatch(COUNT);
        List<Throwable> failures = new CopyOnWriteArrayList<>();
        for (int number = 0; number < COUNT; number++) {
            producer.send(message(topic, number), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    answered.countDown();
                }

                @Override
                public void onException(Throwable failure) {
                    failures.add(failure);
                    answered.countDown();
                }
            });
        }
        check(answered.await(SECONDS, TimeUnit.SECONDS), "no answer to " + answered.getCount());
        check(failures.isEmpty(), failures.toString());
        seen.expect(COUNT);
        return COUNT + " answered and consumed";
    }

    private static String sendOneway(String topic) throws Exception {
        Seen seen = consume(topic);
        for (int number = 0; number < COUNT; number++) {
            producer.sendOneway(message(topic, number));
        }
        seen.expect(COUNT);
        return COUNT + " consumed";
    }

    private static String sendBatch(String topic) throws Exception {
        Seen seen = consume(topic);
        List<Message> batch = new ArrayList<>();
        for (int number = 0; number < COUNT; number++) {
            batch.add(message(topic, number));
        }
        SendResult result = ok(producer.send(batch));
        check(result.getMsgId().split(",").length == COUNT, result.getMsgId());
        check(result.getOffsetMsgId().split(",").length == COUNT, result.getOffsetMsgId());
        seen.expect(COUNT);
        check(seen.queues().size() == 1, "in queues " + seen.queues());
        return "a batch of " + COUNT + " in one queue";
    }

    private static String sendOrdered(String topic) throws Exception {
        for (int step = 0; step < 10; step++) {
            for (int order = 0; order < 3; order++) {
                Message message = new Message(topic, (order + ":" + step).getBytes(StandardCharsets.UTF_8));
                ok(producer.send(message, (queues, sent, which) -> queues.get((int) which % queues.size()), order));
            }
        }
        Map<String, List<Integer>> steps = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                String[] parts = body(message).split(":");
                steps.computeIfAbsent(parts[0], it -> new CopyOnWriteArrayList<>()).add(Integer.parseInt(parts[1]));
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        until("30 steps", () -> steps.values().stream().mapToInt(List::size).sum() >= 30);
        for (List<Integer> taken : steps.values()) {
            check(taken.equals(Arrays.asList(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)), steps.toString());
        }
        return "three orders of ten steps, each in order";
    }

    private static String sendDelayed(String topic) throws Exception {
        Seen seen = consume(topic);
        for (int number = 0; number < 4; number++) {
            Message message = message(topic, number);
            message.setDelayTimeLevel(2);
            ok(producer.send(message));
        }
        seen.expect(4);
        long least = Long.MAX_VALUE;
        for (MessageExt message : seen.messages) {
            least = Math.min(least, message.getStoreTimestamp() - message.getBornTimestamp());
        }
        check(least >= 1900 && least < 10000, "after " + least + " ms");
        return "4 after two seconds";
    }

    private static String sendKeyed(String topic) throws Exception {
        for (int number = 0; number < COUNT; number++) {
            Message message = message(topic, number);
            message.setKeys("first" + number + " second" + number);
            ok(producer.send(message));
        }
        for (String key : new String[] {"first3", "second11"}) {
            String wanted = "message " + key.replaceAll("\\D", "");
            until("key " + key, () -> {
                try {
                    List<MessageExt> found = producer.queryMessage(topic, key, 32, 0, Long.MAX_VALUE).getMessageList();
                    return found.size() == 1 && body(found.get(0)).equals(wanted);
                } catch (Exception none) {
                    return false;
                }
            });
        }
        return "found by either key";
    }

    private static String sendCompressed(String topic) throws Exception {
        Seen seen = consume(topic);
        String text = String.join("", Collections.nCopies(10000, "0123456789"));
        ok(producer.send(new Message(topic, text.getBytes(StandardCharsets.UTF_8))));
        seen.expect(1);
        MessageExt message = seen.messages.get(0);
        check(body(message).equals(text), "another body");
        check(message.getStoreSize() < 10000, "stored as " + message.getStoreSize());
        return "100,000 bytes stored as " + message.getStoreSize();
    }

    // Transactions

    private static String transactionCommitted(String topic) throws Exception {
        Seen seen = consume(topic);
        TransactionMQProducer transactions = transactions(topic, LocalTransactionState.UNKNOW, new HashSet<>());
        for (int number = 0; number < 4; number++) {
            ok(transactions.sendMessageInTransaction(message(topic, number), LocalTransactionState.COMMIT_MESSAGE));
        }
        seen.expect(4);
        return "4 consumed";
    }

    private static String transactionRolledBack(String topic) throws Exception {
        Seen seen = consume(topic);
        TransactionMQProducer transactions = transactions(topic, LocalTransactionState.UNKNOW, new HashSet<>());
        for (int number = 10; number < 14; number++) {
            ok(transactions.sendMessageInTransaction(message(topic, number), LocalTransactionState.ROLLBACK_MESSAGE));
        }
        ok(transactions.sendMessageInTransaction(message(topic, 0), LocalTransactionState.COMMIT_MESSAGE));
        seen.expect(1);
        Thread.sleep(3000);
        seen.expect(1);
        return "of 5 only the one that was committed came";
    }

    private static String transactionChecked(String topic) throws Exception {
        Seen seen = consume(topic);
        Set<String> asked = ConcurrentHashMap.newKeySet();
        TransactionMQProducer transactions = transactions(topic, null, asked);
        for (int number = 0; number < 8; number++) {
            Message message = message(topic, number < 4 ? number : number + 10);
            message.putUserProperty("verdict", number < 4 ? "COMMIT_MESSAGE" : "ROLLBACK_MESSAGE");
            ok(transactions.sendMessageInTransaction(message, LocalTransactionState.UNKNOW));
        }
        until("asked about 8", () -> asked.size() == 8);
        seen.expect(4);
        Thread.sleep(3000);
        seen.expect(4);
        return "asked about 8, the 4 committed came";
    }

    private static TransactionMQProducer transactions(String topic, LocalTransactionState verdict, Set<String> asked)
        throws Exception {
        TransactionMQProducer transactions = new TransactionMQProducer(topic + "_transactions");
        transactions.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object wanted) {
                return (LocalTransactionState) wanted;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                asked.add(body(message));
                return verdict != null ? verdict : LocalTransactionState.valueOf(message.getUserProperty("verdict"));
            }
        });
        start(transactions, "transactions");
        return transactions;
    }

    private static String requestReply(String topic) throws Exception {
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    byte[] answer = ("re: " + body(message)).getBytes(StandardCharsets.UTF_8);
                    producer.send(MessageUtil.createReplyMessage(message, answer));
                } catch (Exception failure) {
                    failure.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (int number = 0; number < 4; number++) {
            Message reply = producer.request(message(topic, number), 20000);
            String text = new String(reply.getBody(), StandardCharsets.UTF_8);
            check(text.equals("re: message " + number), text);
        }
        return "4 requests answered";
    }

    // Consuming

    private static String pushConcurrently(String topic) throws Exception {
        DefaultMQPushConsumer first = consumer(topic);
        Seen seen = new Seen();
        first.registerMessageListener(seen);
        first.start();
        for (int number = 0; number < COUNT; number++) {
            ok(producer.send(message(topic, number)));
        }
        seen.expect(COUNT);
        first.shutdown();
        ok(producer.send(message(topic, COUNT)));
        Seen later = consume(topic);
        until("the last", () -> later.messages.size() >= 1);
        check(later.bodies().equals(Collections.singleton("message " + COUNT)), later.bodies().toString());
        return COUNT + ", and after a pause where it left off";
    }

    private static String pushOrderly(String topic) throws Exception {
        Map<String, List<Long>> offsets = new ConcurrentHashMap<>();
        AtomicBoolean isRefused = new AtomicBoolean();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            MessageExt message = messages.get(0);
            if (message.getQueueOffset() == 2 && isRefused.compareAndSet(false, true)) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            String queue = message.getBrokerName() + message.getQueueId();
            offsets.computeIfAbsent(queue, it -> new CopyOnWriteArrayList<>()).add(message.getQueueOffset());
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        for (int number = 0; number < 40; number++) {
            ok(producer.send(message(topic, number)));
        }
        until("40 in order", () -> offsets.values().stream().mapToInt(List::size).sum() >= 40);
        for (List<Long> taken : offsets.values()) {
            for (int at = 0; at < taken.size(); at++) {
                check(taken.get(at) == at, offsets.toString());
            }
        }
        check(isRefused.get(), "none was refused");
        return "40 in " + offsets.size() + " queues, each in order, one tried again";
    }

    private static String pull(String topic) throws Exception {
        for (int number = 0; number < COUNT; number++) {
            ok(producer.send(message(topic, number)));
        }
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(topic + "_group");
        start(consumer, "puller");
        consumer.start();
        Set<String> bodies = new HashSet<>();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        check(queues.size() == 8, "queues " + queues);
        for (MessageQueue queue : queues) {
            check(consumer.minOffset(queue) == 0, "least offset of " + queue);
            PullResult pulled = consumer.pull(queue, "*", 0, 32);
            if (pulled.getPullStatus() == PullStatus.FOUND) {
                pulled.getMsgFoundList().forEach(message -> bodies.add(body(message)));
            }
            check(pulled.getNextBeginOffset() == consumer.maxOffset(queue), pulled + " of " + queue);
            consumer.updateConsumeOffset(queue, pulled.getNextBeginOffset());
            consumer.getOffsetStore().persist(queue);
            // Told oneway, so that the broker may learn it after the question.
            until("offset " + pulled.getNextBeginOffset() + " of " + queue, () -> {
                try {
                    return consumer.fetchConsumeOffset(queue, true) == pulled.getNextBeginOffset();
                } catch (Exception failure) {
                    throw new IllegalStateException(failure);
                }
            });
        }
        check(bodies.size() == COUNT, "pulled " + bodies);
        consumer.shutdown();
        return COUNT + " from 8 queues, offsets kept";
    }

    private static String litePull(String topic) throws Exception {
        for (int number = 0; number < COUNT; number++) {
            ok(producer.send(message(topic, number)));
        }
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(topic + "_group");
        start(consumer, "lite");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.subscribe(topic, "*");
        consumer.start();
        Map<MessageQueue, Long> next = new HashMap<>();
        Set<String> bodies = poll(consumer, next, COUNT);
        check(bodies.size() == COUNT, "polled " + bodies);
        MessageQueue queue = next.keySet().iterator().next();
        consumer.commitSync();
        until("offset of " + queue, () -> {
            try {
                return consumer.committed(queue).equals(next.get(queue));
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        });
        consumer.seek(queue, 0);
        int again = next.get(queue).intValue();
        check(poll(consumer, new HashMap<>(), again).size() == again, "did not seek");
        consumer.shutdown();
        return COUNT + ", committed, and " + again + " again after seek";
    }

    private static Set<String> poll(DefaultLitePullConsumer consumer, Map<MessageQueue, Long> next, int count) {
        Set<String> bodies = new HashSet<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
        while (bodies.size() < count && System.nanoTime() < deadline) {
            for (MessageExt message : consumer.poll(1000)) {
                bodies.add(body(message));
                MessageQueue queue = new MessageQueue(message.getTopic(), message.getBrokerName(), message.getQueueId());
                next.merge(queue, message.getQueueOffset() + 1, Math::max);
            }
        }
        return bodies;
    }

    private static String broadcast(String topic) throws Exception {
        List<Seen> all = new ArrayList<>();
        for (int member = 0; member < 2; member++) {
            DefaultMQPushConsumer consumer = consumer(topic);
            consumer.setInstanceName("broadcast" + member);
            // The class moved between 4.9 and 5.x.
            for (Method method : DefaultMQPushConsumer.class.getMethods()) {
                if (method.getName().equals("setMessageModel")) {
                    method.invoke(consumer, model(method.getParameterTypes()[0]));
                }
            }
            Seen seen = new Seen();
            consumer.registerMessageListener(seen);
            consumer.start();
            all.add(seen);
        }
        for (int number = 0; number < COUNT; number++) {
            ok(producer.send(message(topic, number)));
        }
        for (Seen seen : all) {
            seen.expect(COUNT);
        }
        return COUNT + " to each of two";
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object model(Class<?> type) {
        return Enum.valueOf((Class<Enum>) type, "BROADCASTING");
    }

    private static String byTags(String topic) throws Exception {
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.subscribe(topic, "TagA || TagC");
        consumer.registerMessageListener(seen);
        consumer.start();
        Set<String> wanted = new TreeSet<>();
        for (int number = 0; number < 24; number++) {
            Message message = message(topic, number);
            message.setTags("Tag" + "ABCD".charAt(number % 4));
            if (number % 2 == 0) {
                wanted.add("message " + number);
            }
            ok(producer.send(message));
        }
        until("12 chosen by tag", () -> seen.messages.size() >= 12);
        check(seen.bodies().equals(wanted), seen.bodies().toString());
        return "12 of 24";
    }

    private static String bySql(String topic) throws Exception {
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.subscribe(topic, MessageSelector.bySql(
            "(number BETWEEN 3 AND 12 AND colour IN ('blue', 'red')) OR (TAGS = 'Rare' AND weight > 1.5)"));
        consumer.registerMessageListener(seen);
        consumer.start();
        Set<String> wanted = new TreeSet<>();
        for (int number = 0; number < 24; number++) {
            Message message = message(topic, number);
            message.putUserProperty("number", String.valueOf(number));
            message.putUserProperty("colour", number % 3 == 0 ? "blue" : "green");
            if (number == 20 || number == 21) {
                message.setTags("Rare");
                message.putUserProperty("weight", number == 20 ? "1.75" : "1.25");
            }
            if (number >= 3 && number <= 12 && number % 3 == 0 || number == 20) {
                wanted.add("message " + number);
            }
            ok(producer.send(message));
        }
        until(wanted + ", seen " + seen.bodies(), () -> seen.messages.size() >= wanted.size());
        check(seen.bodies().equals(wanted), seen.bodies().toString());
        return wanted.size() + " of 24";
    }

    private static String retryToDeadLetters(String topic) throws Exception {
        List<Integer> times = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.setMaxReconsumeTimes(2);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            check(messages.get(0).getTopic().equals(topic), "a retry shows topic " + messages.get(0).getTopic());
            times.add(messages.get(0).getReconsumeTimes());
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        Message sent = message(topic, 0);
        sent.putUserProperty("colour", "blue");
        ok(producer.send(sent));
        until("tried three times", () -> times.size() >= 3);
        DefaultMQPushConsumer undertaker = consumer("%DLQ%" + consumer.getConsumerGroup(), topic + "_undertaker");
        Seen dead = new Seen();
        undertaker.registerMessageListener(dead);
        undertaker.start();
        until("dead letter", () -> dead.messages.size() >= 1);
        MessageExt letter = dead.messages.get(0);
        check(body(letter).equals("message 0"), body(letter));
        check("blue".equals(letter.getUserProperty("colour")), letter.getProperties().toString());
        check(topic.equals(letter.getProperty("DLQ_ORIGIN_TOPIC")) || topic.equals(letter.getProperty("RETRY_TOPIC")),
            letter.getProperties().toString());
        check(times.equals(Arrays.asList(0, 1, 2)), times.toString());
        return "tried 3 times, then a dead letter";
    }

    private static String offsetReset(String topic) throws Exception {
        List<String> taken = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> taken.add(body(message)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long before = System.currentTimeMillis() - 1000;
        for (int number = 0; number < COUNT; number++) {
            ok(producer.send(message(topic, number)));
        }
        until(COUNT + " taken", () -> taken.size() >= COUNT);
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        start(admin, "admin");
        admin.start();
        Map<MessageQueue, Long> reset = admin.resetOffsetByTimestamp(topic, consumer.getConsumerGroup(), before, true);
        admin.shutdown();
        check(reset.size() == 8, "reset " + reset);
        until(2 * COUNT + " taken, now " + taken.size(), () -> taken.size() >= 2 * COUNT);
        check(new HashSet<>(taken).size() == COUNT, taken.toString());
        return COUNT + " taken twice";
    }

    /** Two consumers, to which a third comes that is killed: messages go to all who are there, and none is lost. */
    private static String rebalancing(String topic) throws Exception {
        String group = topic + "_group";
        List<Seen> here = new ArrayList<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int member = 0; member < 2; member++) {
            DefaultMQPushConsumer consumer = consumer(topic);
            consumer.setInstanceName("member" + member);
            Seen seen = new Seen();
            consumer.registerMessageListener(seen);
            consumer.start();
            here.add(seen);
            consumers.add(consumer);
        }
        until("4 queues each", () -> queues(consumers).equals(Arrays.asList(4, 4)));
        for (int number = 0; number < COUNT; number++) {
            ok(producer.send(message(topic, number)));
        }
        until("all to two", () -> union(here).size() == COUNT);
        String java = System.getProperty("java.home") + File.separator + "bin" + File.separator + "java";
        List<String> command = new ArrayList<>(Arrays.asList(java, "-Xmx128m", "-XX:TieredStopAtLevel=1"));
        System.getProperties().forEach((key, value) -> {
            if (key.toString().startsWith("rocketmq.") || key.toString().startsWith("user.home")) {
                command.add("-D" + key + "=" + value);
            }
        });
        command.addAll(Arrays.asList("-cp", System.getProperty("java.class.path"), "Features", namesrv, "member", topic,
            group));
        File printed = File.createTempFile("member", ".txt");
        Process third = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(printed).start();
        try {
            until("5 or 6 queues for two", () -> queues(consumers).stream().mapToInt(it -> it).sum() <= 6);
            for (int number = COUNT; number < 3 * COUNT; number++) {
                ok(producer.send(message(topic, number)));
            }
            until("all to three", () -> {
                Set<String> all = union(here);
                all.addAll(lines(printed));
                return all.size() == 3 * COUNT;
            });
            check(!lines(printed).isEmpty(), "the third got none");
        } finally {
            third.destroyForcibly().waitFor();
        }
        int taken = lines(printed).size();
        until("4 queues each again", () -> queues(consumers).equals(Arrays.asList(4, 4)));
        for (int number = 3 * COUNT; number < 4 * COUNT; number++) {
            ok(producer.send(message(topic, number)));
        }
        Set<String> all = new HashSet<>();
        until("all to two again", () -> {
            all.addAll(union(here));
            all.addAll(lines(printed));
            return all.size() == 4 * COUNT;
        });
        return "two, three, two consumers; the third took " + taken + ", none lost";
    }

    private static List<Integer> queues(List<DefaultMQPushConsumer> consumers) {
        List<Integer> counts = new ArrayList<>();
        for (DefaultMQPushConsumer consumer : consumers) {
            Collection<MessageQueue> own =
                consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet();
            counts.add((int) own.stream().filter(queue -> !queue.getTopic().startsWith("%RETRY%")).count());
        }
        return counts;
    }

    private static Set<String> union(List<Seen> all) {
        Set<String> bodies = new HashSet<>();
        all.forEach(seen -> bodies.addAll(seen.bodies()));
        return bodies;
    }

    private static Set<String> lines(File file) {
        try {
            Set<String> lines = new HashSet<>(java.nio.file.Files.readAllLines(file.toPath()));
            lines.removeIf(line -> !line.startsWith("message "));
            return lines;
        } catch (java.io.IOException failure) {
            throw new IllegalStateException(failure);
        }
    }

    private static void beMember(String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = consumer(topic, group);
        consumer.setInstanceName("third");
        consumer.setPersistConsumerOffsetInterval(200);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> System.out.println(body(message)));
            System.out.flush();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Thread.currentThread().join();
    }

    // What they share

    /** What a consumer was given. */
    private static class Seen implements MessageListenerConcurrently {
        final List<MessageExt> messages = new CopyOnWriteArrayList<>();

        @Override
        public ConsumeConcurrentlyStatus consumeMessage(
            List<MessageExt> given, org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext context) {
            messages.addAll(given);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }

        Set<String> bodies() {
            Set<String> bodies = new TreeSet<>();
            messages.forEach(message -> bodies.add(body(message)));
            return bodies;
        }

        Set<String> queues() {
            Set<String> queues = new TreeSet<>();
            messages.forEach(message -> queues.add(message.getBrokerName() + message.getQueueId()));
            return queues;
        }

        /** Waits for messages 0 to COUNT - 1, each once and no other. */
        void expect(int count) {
            until(count + " consumed", () -> messages.size() >= count);
            check(messages.size() == count, "consumed " + messages.size() + ": " + bodies());
            if (count > 1) {
                for (int number = 0; number < count; number++) {
                    check(bodies().contains("message " + number), "no message " + number + " in " + bodies());
                }
            }
        }
    }

    private static Seen consume(String topic) throws Exception {
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.registerMessageListener(seen);
        consumer.start();
        return seen;
    }

    private static DefaultMQPushConsumer consumer(String topic) throws Exception {
        return consumer(topic, topic + "_group");
    }

    private static DefaultMQPushConsumer consumer(String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        start(consumer, "consumer");
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(4);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    private static <C extends ClientConfig> void start(C client, String instance) throws Exception {
        client.setNamesrvAddr(namesrv);
        client.setInstanceName(instance);
        client.setPollNameServerInterval(1000);
        client.setHeartbeatBrokerInterval(5000);
        if (client instanceof DefaultMQProducer) {
            ((DefaultMQProducer) client).setSendMsgTimeout(10000);
            ((DefaultMQProducer) client).start();
        }
    }

    private static Message message(String topic, int number) {
        return new Message(topic, ("message " + number).getBytes(StandardCharsets.UTF_8));
    }

    private static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static SendResult ok(SendResult result) {
        check(result.getSendStatus() == SendStatus.SEND_OK, result.toString());
        return result;
    }

    private static void until(String what, BooleanSupplier isTrue) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
        while (!isTrue.getAsBoolean()) {
            check(System.nanoTime() < deadline, "not within " + SECONDS + " s: " + what);
            try {
                Thread.sleep(50);
            } catch (InterruptedException end) {
                throw new IllegalStateException(end);
            }
        }
    }

    private static void check(boolean isTrue, String otherwise) {
        if (!isTrue) {
            throw new IllegalStateException(otherwise);
        }
    }
}
