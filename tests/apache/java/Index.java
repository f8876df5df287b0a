import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.rocketmq.store.index.IndexFile;

/**
 * Index DIRECTORY SLOTS ENTRIES COMMANDS: Apache's own index files, driven by the lines of a file. "put OFFSET TIME KEY"
 * enters a key as IndexService does, going on in the next file when one is full; "query MAX BEGIN END KEY" prints
 * the offsets found. Files are named 1, 2, 3 with leading zeros; those that are there are loaded.
 */
public class Index {
    private static final List<IndexFile> FILES = new ArrayList<>();
    private static String directory;
    private static int slots;
    private static int entries;

    public static void main(String[] arguments) throws Exception {
        directory = arguments[0];
        slots = Integer.parseInt(arguments[1]);
        entries = Integer.parseInt(arguments[2]);
        File[] there = new File(directory).listFiles();
        Arrays.sort(there);
        for (File file : there) {
            FILES.add(new IndexFile(file.getPath(), slots, entries, 0, 0));
            FILES.get(FILES.size() - 1).load();
        }
        for (String line : Files.readAllLines(Paths.get(arguments[3]), StandardCharsets.UTF_8)) {
            String[] words = line.split(" ", 5);
            if (words[0].equals("put")) {
                String key = line.split(" ", 4)[3];
                last().putKey(key, Long.parseLong(words[1]), Long.parseLong(words[2]));
            } else {
                query(words[4], Integer.parseInt(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]));
            }
        }
        FILES.forEach(IndexFile::flush);
        System.exit(0);
    }

    private static IndexFile last() throws Exception {
        IndexFile last = FILES.isEmpty() ? null : FILES.get(FILES.size() - 1);
        if (last == null || last.isWriteFull()) {
            String name = String.format("%s/%017d", directory, FILES.size() + 1);
            long offset = last == null ? 0 : last.getEndPhyOffset();
            long time = last == null ? 0 : last.getEndTimestamp();
            last = new IndexFile(name, slots, entries, offset, time);
            FILES.add(last);
        }
        return last;
    }

    private static void query(String key, int max, long begin, long end) {
        List<Long> found = new ArrayList<>();
        for (int number = FILES.size() - 1; number >= 0; number--) {
            IndexFile file = FILES.get(number);
            if (file.isTimeMatched(begin, end)) {
                file.selectPhyOffset(found, key, max, begin, end);
            }
            if (file.getBeginTimestamp() < begin || found.size() >= max) {
                break;
            }
        }
        StringBuilder line = new StringBuilder();
        found.forEach(offset -> line.append(offset).append(' '));
        System.out.println(line.toString().trim());
    }
}
