import com.alibaba.fastjson2.JSON;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.broker.loadbalance.MessageRequestModeManager;
import org.apache.rocketmq.broker.pop.orderly.QueueLevelConsumerManager;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.BatchAck;
import org.apache.rocketmq.remoting.protocol.body.BatchAckMessageRequestBody;
import org.apache.rocketmq.remoting.protocol.body.SetMessageRequestModeRequestBody;
import org.apache.rocketmq.store.pop.AckMsg;
import org.apache.rocketmq.store.pop.BatchAckMsg;
import org.apache.rocketmq.store.pop.PopCheckPoint;

/** Prints, one to a line, what popping keeps and sends as JSON. */
public class PopBodies {
    public static void main(String[] arguments) {
        PopCheckPoint point = new PopCheckPoint();
        point.setBitMap(0);
        point.setNum((byte) 3);
        point.setPopTime(1700000000123L);
        point.setInvisibleTime(60000);
        point.setStartOffset(40);
        point.setCId("readers");
        point.setTopic("orders");
        point.setQueueId(2);
        point.setBrokerName("broker-a");
        for (int diff : new int[] {0, 1, 4}) {
            point.addDiff(diff);
        }
        System.out.println("checkpoint " + JSON.toJSONString(point));
        AckMsg ack = new AckMsg();
        fill(ack);
        ack.setAckOffset(41);
        System.out.println("ack " + JSON.toJSONString(ack));
        BatchAckMsg batch = new BatchAckMsg();
        fill(batch);
        batch.setAckOffset(-1);
        batch.getAckOffsetList().addAll(Arrays.asList(40L, 44L));
        System.out.println("batch-ack " + JSON.toJSONString(batch));
        BatchAck one = new BatchAck();
        one.setConsumerGroup("readers");
        one.setTopic("orders");
        one.setRetry("0");
        one.setStartOffset(40);
        one.setQueueId(2);
        one.setReviveQueueId(5);
        one.setPopTime(1700000000123L);
        one.setInvisibleTime(60000);
        BitSet bits = new BitSet();
        bits.set(0);
        bits.set(4);
        bits.set(9);
        one.setBitSet(bits);
        BatchAckMessageRequestBody body = new BatchAckMessageRequestBody();
        body.setBrokerName("broker-a");
        body.setAcks(Collections.singletonList(one));
        System.out.println("batch-ack-request " + new String(body.encode()));
        SetMessageRequestModeRequestBody mode = new SetMessageRequestModeRequestBody();
        mode.setTopic("orders");
        mode.setConsumerGroup("readers");
        mode.setMode(MessageRequestMode.POP);
        mode.setPopShareQueueNum(2);
        MessageRequestModeManager modes = new MessageRequestModeManager();
        modes.setMessageRequestMode("orders", "readers", mode);
        System.out.println("modes " + modes.encode());
        QueueLevelConsumerManager orders = new QueueLevelConsumerManager();
        StringBuilder counts = new StringBuilder();
        orders.update("first", false, "orders", "readers", 2, 1700000000123L, 60000, Arrays.asList(40L, 41L, 44L), counts);
        orders.updateNextVisibleTime("orders", "readers", 2, 41, 1700000000123L, 1700000009000L);
        orders.commitAndNext("orders", "readers", 2, 40, 1700000000123L);
        orders.getTable().get("orders@readers").get(2).setLastConsumeTimestamp(1700000000124L);
        System.out.println("order " + RemotingSerializable.toJson(orders, false));
        counts.setLength(0);
        orders.update("second", false, "orders", "readers", 2, 1700000060123L, 60000, Arrays.asList(41L, 44L, 45L), counts);
        orders.getTable().get("orders@readers").get(2).setLastConsumeTimestamp(1700000060124L);
        System.out.println("order-again " + RemotingSerializable.toJson(orders, false));
        System.out.println("order-count " + counts);
    }

    private static void fill(AckMsg ack) {
        ack.setStartOffset(40);
        ack.setConsumerGroup("readers");
        ack.setTopic("orders");
        ack.setQueueId(2);
        ack.setPopTime(1700000000123L);
        ack.setBrokerName("broker-a");
    }
}
