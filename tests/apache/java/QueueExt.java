import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.store.ConsumeQueueExt;
import org.apache.rocketmq.store.ConsumeQueueExt.CqExtUnit;

/**
 * QueueExt DIRECTORY SIZE LINES [ADDRESS ...]: Apache's own units beside the queue t/0, in files of SIZE bytes. Loads
 * and recovers what is there, prints the units at the addresses, then puts one for each line of a file
 * ("TAGSCODE STORETIME BITMAP", the last in hexadecimal digits) and prints all their addresses in one line.
 */
public class QueueExt {
    public static void main(String[] arguments) throws Exception {
        ConsumeQueueExt ext = new ConsumeQueueExt("t", 0, arguments[0], Integer.parseInt(arguments[1]), 64);
        ext.load();
        ext.recover();
        for (int number = 3; number < arguments.length; number++) {
            CqExtUnit unit = ext.get(Long.parseLong(arguments[number]));
            System.out.println(unit == null ? "none" : line(unit));
            if (number == arguments.length - 1) {
                ext.truncateByMaxAddress(Long.parseLong(arguments[number]));
            }
        }
        List<String> addresses = new ArrayList<>();
        for (String line : Files.readAllLines(Paths.get(arguments[2]), StandardCharsets.UTF_8)) {
            String[] words = line.split(" ");
            byte[] bits = words.length < 3 ? null : bytes(words[2]);
            addresses.add(Long.toString(ext.put(new CqExtUnit(Long.parseLong(words[0]), Long.parseLong(words[1]), bits))));
        }
        ext.flush(0);
        System.out.println(String.join(" ", addresses));
        System.exit(0);
    }

    private static String line(CqExtUnit unit) {
        StringBuilder digits = new StringBuilder();
        byte[] bits = unit.getFilterBitMap();
        for (int at = 0; bits != null && at < bits.length; at++) {
            digits.append(String.format("%02x", bits[at]));
        }
        return (unit.getTagsCode() + " " + unit.getMsgStoreTime() + " " + digits).trim();
    }

    private static byte[] bytes(String digits) {
        byte[] result = new byte[digits.length() / 2];
        for (int at = 0; at < result.length; at++) {
            result[at] = (byte) Integer.parseInt(digits.substring(2 * at, 2 * at + 2), 16);
        }
        return result;
    }
}
