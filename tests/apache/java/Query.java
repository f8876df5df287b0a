import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Query NAMESRV TOPIC FILE: asks as mqadmin's queryMsgById and queryMsgByKey do. For each line of FILE, "id ID" or
 * "key KEY", prints the offset id and the SHA-256 of the body of every message found, oldest first, parted by spaces.
 * Each is printed once: the last that was in the index before a broker was killed is entered again by the next.
 */
public class Query {
    public static void main(String[] arguments) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(arguments[0]);
        admin.start();
        for (String line : Files.readAllLines(Paths.get(arguments[2]), StandardCharsets.UTF_8)) {
            String name = line.substring(line.indexOf(' ') + 1);
            if (line.startsWith("id ")) {
                System.out.println(found(admin.viewMessage(arguments[1], name)));
            } else {
                System.out.println(findAll(admin, arguments[1], name));
            }
        }
        System.exit(0);
    }

    private static String findAll(DefaultMQAdminExt admin, String topic, String key) throws InterruptedException {
        try {
            return admin.queryMessage(topic, key, 64, 0, Long.MAX_VALUE).getMessageList().stream()
                .map(Query::found).distinct().sorted().collect(Collectors.joining(" "));
        } catch (MQClientException none) {
            return none.getMessage();
        }
    }

    private static String found(MessageExt message) {
        StringBuilder digest = new StringBuilder();
        try {
            for (byte octet : MessageDigest.getInstance("SHA-256").digest(message.getBody())) {
                digest.append(String.format("%02x", octet));
            }
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
        return ((MessageClientExt) message).getOffsetMsgId() + " " + digest;
    }
}
