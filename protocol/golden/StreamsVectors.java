// Messages and records of streams groups (KIP-1071) by Kafka's own classes: JSON lines in and out.
//
//     java -cp 'JARS/*' protocol/golden/StreamsVectors.java < requests > vectors
//
// A request is {"message", "version", "value"}, with the value in the form of Kafka's generated JSON converters. The
// answer adds "hex", the bytes that Kafka's class writes, and "java_reads", what it reads from them. Keys and values of
// records begin with their type or version, as in the topic.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

public final class StreamsVectors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode request = (ObjectNode) JSON.readTree(line);
            String message = request.get("message").asText();
            short version = (short) request.get("version").asInt();
            String name = message.endsWith("Request") || message.endsWith("Response")
                ? "org.apache.kafka.common.message." + message + "Data"
                : "org.apache.kafka.coordinator.group.generated." + message;
            Class<?> converter = Class.forName(name + "JsonConverter");
            Message value = (Message) converter.getMethod("read", JsonNode.class, short.class)
                .invoke(null, request.get("value"), version);
            byte[] bytes = write(message, value, version);
            ByteBuffer body = ByteBuffer.wrap(bytes);
            if (!name.endsWith("Data")) {
                body.getShort();
            }
            Message read = (Message) value.getClass().getConstructor().newInstance();
            read.read(new ByteBufferAccessor(body), version);
            JsonNode reading = (JsonNode) converter.getMethod("write", value.getClass(), short.class)
                .invoke(null, read, version);
            request.remove("value");
            request.put("hex", HexFormat.of().formatHex(bytes));
            request.set("java_reads", reading);
            System.out.println(JSON.writeValueAsString(request));
        }
    }

    private static byte[] write(String message, Message value, short version) {
        if (message.endsWith("Key")) {
            return MessageUtil.toCoordinatorTypePrefixedBytes((ApiMessage) value);
        }
        ByteBuffer bytes = message.endsWith("Value")
            ? MessageUtil.toVersionPrefixedByteBuffer(version, value)
            : MessageUtil.toByteBufferAccessor(value, version).buffer();
        byte[] raw = new byte[bytes.remaining()];
        bytes.get(raw);
        return raw;
    }
}
