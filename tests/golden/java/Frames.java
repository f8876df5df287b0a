import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/** Reads a description of a request (JSON, one line each) and prints "frame" and the frame Java makes of it, in hexadecimal. */
public class Frames {
    /** Where the header and body classes live: the first ones in 5.x, the last ones in 4.x. */
    private static final String[] PACKAGES = {
        "org.apache.rocketmq.remoting.protocol.header.namesrv.",
        "org.apache.rocketmq.remoting.protocol.header.",
        "org.apache.rocketmq.remoting.protocol.body.",
        "org.apache.rocketmq.remoting.protocol.route.",
        "org.apache.rocketmq.remoting.protocol.",
        "org.apache.rocketmq.common.protocol.header.namesrv.",
        "org.apache.rocketmq.common.protocol.header.",
        "org.apache.rocketmq.common.protocol.body.",
        "org.apache.rocketmq.common.protocol.route.",
        "org.apache.rocketmq.common.",
    };

    public static void main(String[] arguments) throws Exception {
        // The servers and tools do this first, so that commands carry the version of the release.
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println("frame " + ByteBufUtil.hexDump(frame(command(JSON.parseObject(line)))));
        }
    }

    private static RemotingCommand command(JSONObject described) throws Exception {
        byte[] body = body(described);
        RemotingCommand command = RemotingCommand.createRequestCommand(described.getIntValue("code"), header(described, body));
        command.setOpaque(described.getIntValue("opaque"));
        command.setSerializeTypeCurrentRPC(SerializeType.valueOf(described.getString("serialize")));
        command.setBody(body);
        if (described.containsKey("version")) {
            command.setVersion(described.getIntValue("version"));
        }
        for (String name : described.getJSONObject("extra").keySet()) {
            command.addExtField(name, described.getJSONObject("extra").getString(name));
        }
        return command;
    }

    private static CommandCustomHeader header(JSONObject described, byte[] body) throws Exception {
        if (described.getString("header") == null) {
            return null;
        }
        JSONObject fields = described.getJSONObject("fields");
        if ("right".equals(fields.get("bodyCrc32"))) {
            fields.put("bodyCrc32", UtilAll.crc32(body));
        }
        return (CommandCustomHeader) RemotingSerializable.fromJson(fields.toJSONString(), find(described.getString("header")));
    }

    private static byte[] body(JSONObject described) throws Exception {
        if (described.containsKey("text")) {
            return described.getString("text").getBytes(StandardCharsets.UTF_8);
        }
        if (described.getString("body") == null) {
            return null;
        }
        Object body = RemotingSerializable.fromJson(described.getString("value"), find(described.getString("body")));
        if (described.getString("body").equals("RegisterBrokerBody")) {
            boolean compressed = described.getJSONObject("fields").getBooleanValue("compressed");
            return (byte[]) body.getClass().getMethod("encode", boolean.class).invoke(body, compressed);
        }
        return ((RemotingSerializable) body).encode();
    }

    /** Does what NettyEncoder does. */
    private static ByteBuf frame(RemotingCommand command) {
        ByteBuf frame = Unpooled.buffer();
        command.fastEncodeHeader(frame);
        if (command.getBody() != null) {
            frame.writeBytes(command.getBody());
        }
        return frame;
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            try {
                return Class.forName(prefix + name);
            } catch (ClassNotFoundException absent) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }
}
