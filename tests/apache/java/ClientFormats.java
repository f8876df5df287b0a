import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.AccessChannel;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.consumer.store.OffsetSerializeWrapper;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.trace.TraceType;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageType;

/** What Java's client computes and writes without a server: shares of queues, offsets in a file, traces. */
public class ClientFormats {
    public static void main(String[] arguments) throws Exception {
        List<AllocateMessageQueueStrategy> strategies = Arrays.asList(
            new AllocateMessageQueueAveragely(),
            new AllocateMessageQueueAveragelyByCircle(),
            new AllocateMessageQueueConsistentHash());
        List<MessageQueue> queues = new ArrayList<>();
        for (String broker : Arrays.asList("broker-a", "broker-b")) {
            for (int id = 0; id < 8; id++) {
                queues.add(new MessageQueue("orders", broker, id));
            }
        }
        for (AllocateMessageQueueStrategy strategy : strategies) {
            for (int count = 1; count <= 5; count++) {
                List<String> members = new ArrayList<>();
                for (int number = 0; number < count; number++) {
                    members.add("10.0.0." + number + "@77#" + number * 1000);
                }
                for (String member : members) {
                    StringBuilder line = new StringBuilder("share " + strategy.getName() + " " + count + " " + member);
                    for (MessageQueue queue : strategy.allocate("group", member, queues, members)) {
                        line.append(' ').append(queue.getBrokerName()).append(':').append(queue.getQueueId());
                    }
                    System.out.println(line);
                }
            }
        }
        TraceBean bean = new TraceBean();
        bean.setTopic("orders");
        bean.setMsgId("ID");
        bean.setOffsetMsgId("OFFSET");
        bean.setTags("TagA");
        bean.setKeys("k1 k2");
        bean.setStoreHost("127.0.0.1:10911");
        bean.setBodyLength(5);
        bean.setRetryTimes(2);
        bean.setMsgType(MessageType.Delay_Msg);
        for (TraceType type : Arrays.asList(TraceType.Pub, TraceType.SubBefore, TraceType.SubAfter)) {
            TraceContext context = new TraceContext();
            context.setTraceType(type);
            context.setTimeStamp(1700000000000L);
            context.setRegionId("DefaultRegion");
            context.setGroupName("group");
            context.setCostTime(3);
            context.setSuccess(type != TraceType.SubAfter);
            context.setRequestId("REQUEST");
            context.setContextCode(2);
            context.setAccessChannel(AccessChannel.LOCAL);
            context.setTraceBeans(Arrays.asList(bean));
            String data = TraceDataEncoder.encoderFromContextBean(context).getTransData();
            System.out.println("trace " + data.replace('\u0001', '|').replace('\u0002', '$'));
        }
        ConcurrentMap<MessageQueue, AtomicLong> table = new ConcurrentHashMap<>();
        table.put(new MessageQueue("orders", "broker-a", 3), new AtomicLong(1368));
        OffsetSerializeWrapper offsets = new OffsetSerializeWrapper();
        offsets.setOffsetTable(table);
        System.out.println("offsets " + offsets.toJson(true).replace("\n", "~"));
    }
}
