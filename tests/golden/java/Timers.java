import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.timer.TimerCheckpoint;
import org.apache.rocketmq.store.timer.TimerLog;
import org.apache.rocketmq.store.timer.TimerMessageStore;
import org.apache.rocketmq.store.timer.TimerMetrics;

/**
 * Timers DIRECTORY WINDOW FILE_SIZE LINE...: Apache's own timer store without a broker. Each line is
 * "PHYSICAL_OFFSET SIZE WRITE_TIME OUT_MS TOPIC [DELETE_KEY]" and enters one message when its clock stands at WRITE_TIME.
 */
public class Timers extends TimerMessageStore {
    private Timers(MessageStoreConfig config, TimerCheckpoint checkpoint, TimerMetrics metrics) throws Exception {
        super(null, config, checkpoint, metrics, null);
    }

    public static void main(String[] arguments) throws Exception {
        Path root = Paths.get(arguments[0]);
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root.toString());
        config.setMappedFileSizeTimerLog(Integer.parseInt(arguments[2]));
        set(config, "timerRollWindowSlot", Integer.parseInt(arguments[1]));
        TimerCheckpoint checkpoint = new TimerCheckpoint(root.resolve("config").resolve("timercheck").toString());
        TimerMetrics metrics = new TimerMetrics(root.resolve("config").resolve("timermetrics").toString());
        Timers timers = new Timers(config, checkpoint, metrics);
        for (int at = 3; at < arguments.length; at++) {
            timers.enter(arguments[at].split(" "));
        }
        timers.commitReadTimeMs = timers.currWriteTimeMs;
        timers.commitQueueOffset = arguments.length - 3;
        timers.getTimerLog().getMappedFileQueue().flush(0);
        timers.getTimerWheel().flush();
        timers.setShouldRunningDequeue(true);
        checkpoint.setLastReadTimeMs(timers.commitReadTimeMs);
        checkpoint.setLastTimerLogFlushPos(timers.getTimerLog().getMappedFileQueue().getFlushedWhere());
        checkpoint.setMasterTimerQueueOffset(timers.commitQueueOffset);
        checkpoint.setLastTimerQueueOffset(timers.commitQueueOffset);
        checkpoint.getDataVersion().nextVersion(3);
        checkpoint.flush();
        metrics.persist();
        System.out.println("last unit at " + timers.getTimerLog().getOffsetForLastUnit());
        System.exit(0);
    }

    private void enter(String[] words) throws Exception {
        MessageExt message = new MessageExt();
        MessageAccessor.putProperty(message, "REAL_TOPIC", words[4]);
        if (words.length > 5) {
            MessageAccessor.putProperty(message, "TIMER_DEL_UNIQKEY", words[5]);
        }
        currWriteTimeMs = Long.parseLong(words[2]);
        if (!doEnqueue(Long.parseLong(words[0]), Integer.parseInt(words[1]), Long.parseLong(words[3]), message, false)) {
            throw new IllegalStateException("refused");
        }
    }

    private static void set(Object config, String name, int value) throws Exception {
        java.lang.reflect.Field field = config.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.setInt(config, value);
    }
}
