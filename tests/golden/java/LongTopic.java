import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.message.MessageVersion;
import org.apache.rocketmq.store.MessageExtEncoder;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/** Prints "record NAME HEX" for topics too long for one byte, as the store of 5.x encodes them before it appends. */
public class LongTopic {
    public static void main(String[] none) {
        for (String ip : new String[] {"127.0.0.1", "::1"}) {
            for (int size : new int[] {128, 255}) {
                System.out.println("record long-topic-" + size + (ip.contains(":") ? "-v6 " : " ") + encoded(ip, size));
            }
        }
        System.exit(0);
    }

    private static String encoded(String ip, int topicSize) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic("%RETRY%" + "g".repeat(topicSize - 7));
        message.setVersion(MessageVersion.MESSAGE_VERSION_V2);
        message.setBody("long".getBytes(StandardCharsets.UTF_8));
        message.setBodyCRC(UtilAll.crc32(message.getBody()));
        message.setPropertiesString("case\u0001long-topic\u0002");
        message.setQueueOffset(5);
        message.setBornTimestamp(1700000000000L);
        message.setStoreTimestamp(1700000000005L);
        message.setBornHost(new InetSocketAddress(ip, 51234));
        message.setStoreHost(new InetSocketAddress(ip, 10911));
        if (ip.contains(":")) {
            message.setBornHostV6Flag();
            message.setStoreHostAddressV6Flag();
        }
        MessageExtEncoder encoder = new MessageExtEncoder(new MessageStoreConfig());
        if (encoder.encode(message) != null) {
            throw new IllegalStateException("refused");
        }
        ByteBuffer record = encoder.getEncoderBuffer();
        StringBuilder digits = new StringBuilder();
        for (int at = 0; at < record.getInt(0); at++) {
            digits.append(String.format("%02x", record.get(at)));
        }
        return digits.toString();
    }
}
