import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import java.util.UUID;
import java.util.function.Function;

import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/**
 * Kafka's own serdes behind lines of text. Reads "write SERDE TEXT" and prints the bytes of the value as hex; reads
 * "read SERDE HEX" and prints the bytes of the value that was read, or "refused".
 *
 * <p>A string is written as its code points in hex, separated by commas.
 */
public final class SerdeShell {
    private record Kind<T>(Serde<T> serde, Function<String, T> parse) {
        byte[] write(final String text) {
            return serde.serializer().serialize("topic", parse.apply(text));
        }

        byte[] again(final byte[] data) {
            return serde.serializer().serialize("topic", serde.deserializer().deserialize("topic", data));
        }
    }

    private static final Map<String, Kind<?>> KINDS = Map.of(
        "string", new Kind<>(Serdes.String(), SerdeShell::string),
        "short", new Kind<>(Serdes.Short(), Short::valueOf),
        "integer", new Kind<>(Serdes.Integer(), Integer::valueOf),
        "long", new Kind<>(Serdes.Long(), Long::valueOf),
        "float", new Kind<>(Serdes.Float(), Float::valueOf),
        "double", new Kind<>(Serdes.Double(), Double::valueOf),
        "boolean", new Kind<>(Serdes.Boolean(), Boolean::valueOf),
        "uuid", new Kind<>(Serdes.UUID(), UUID::fromString));

    public static void main(final String[] args) throws Exception {
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ", -1)));
        }
    }

    private static String answer(final String[] words) {
        final Kind<?> kind = KINDS.get(words[1]);
        try {
            final byte[] made = words[0].equals("write")
                ? kind.write(words[2]) : kind.again(HexFormat.of().parseHex(words[2]));
            return HexFormat.of().formatHex(made);
        } catch (final SerializationException refused) {
            return "refused";
        }
    }

    private static String string(final String points) {
        final int[] found = points.isEmpty() ? new int[0]
            : Arrays.stream(points.split(",")).mapToInt(point -> Integer.parseInt(point, 16)).toArray();
        return new String(found, 0, found.length);
    }
}
