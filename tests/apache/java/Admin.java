import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs many mqadmin commands in one virtual machine. A line on standard input is a command, its words parted by
 * tabs; the answer is a line "done", "exit" (the command ended the machine), then what went to out and err in base64.
 */
public class Admin {
    private static final PrintStream ANSWERS = System.out;
    private static ByteArrayOutputStream out;
    private static ByteArrayOutputStream err;

    public static void main(String[] none) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> answer("exit")));
        Thread waker = new Thread(Admin::wakeEventThreads);
        waker.setDaemon(true);
        waker.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ANSWERS.println("ready");
        ANSWERS.flush();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            capture();
            MQAdminStartup.main0(line.split("\t"), null);
            answer("done");
        }
        Runtime.getRuntime().halt(0);
    }

    /** Every second command of 5.x would end with waiting until its event thread looks up, every three seconds. */
    private static void wakeEventThreads() {
        while (true) {
            for (Thread thread : Thread.getAllStackTraces().keySet()) {
                if (thread.getName().contains("NettyEventExecutor")) {
                    thread.interrupt();
                }
            }
            try {
                Thread.sleep(100);
            } catch (InterruptedException end) {
                return;
            }
        }
    }

    private static synchronized void capture() throws Exception {
        out = new ByteArrayOutputStream();
        err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, "UTF-8"));
        System.setErr(new PrintStream(err, true, "UTF-8"));
    }

    private static synchronized void answer(String how) {
        if (out == null) {
            return;
        }
        System.out.flush();
        System.err.flush();
        Base64.Encoder base64 = Base64.getEncoder();
        String printed = base64.encodeToString(out.toByteArray());
        ANSWERS.println(how + " " + printed + " " + base64.encodeToString(err.toByteArray()));
        ANSWERS.flush();
        out = null;
    }
}
