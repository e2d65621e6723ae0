import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/**
 * The user-data classes of the Kafka Streams release on the class path, over lines.
 *
 * <p>"write V": a subscription and an assignment of version V, as hex. "subscription HEX" and "assignment HEX": what
 * the release reads, as it prints it, or "error: ...". Constructors differ between releases, so they are looked up.
 */
public final class UserData {
    private static final HexFormat HEX = HexFormat.of();
    private static final UUID PROCESS = new UUID(0x0123456789abcdefL, 0xfedcba9876543210L);
    private static final TopicPartition FIRST = new TopicPartition("words", 0);
    private static final TopicPartition SECOND = new TopicPartition("words", 1);

    public static void main(final String[] args) throws Exception {
        final BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            final String[] words = line.split(" ");
            System.out.println(answer(words[0], words[1]).replace("\n", " "));
        }
    }

    private static String answer(final String question, final String about) throws Exception {
        try {
            switch (question) {
                case "write":
                    final int version = Integer.parseInt(about);
                    return hex(subscription(version).encode()) + " " + hex(assignment(version).encode());
                case "subscription":
                    return SubscriptionInfo.decode(ByteBuffer.wrap(HEX.parseHex(about))).toString();
                default:
                    return described(AssignmentInfo.decode(ByteBuffer.wrap(HEX.parseHex(about))));
            }
        } catch (final RuntimeException refused) {
            return "error: " + refused;
        }
    }

    /** Adds two fields that its text omits; 2.4 has only one of them. */
    private static String described(final AssignmentInfo info) throws Exception {
        final boolean probes = Arrays.stream(AssignmentInfo.class.getMethods())
            .anyMatch(method -> method.getName().equals("nextRebalanceMs"));
        final Object next = probes ? AssignmentInfo.class.getMethod("nextRebalanceMs").invoke(info) : "never";
        return info + ", error code " + info.errCode() + ", next rebalance " + next;
    }

    /** The one constructor that takes two versions first; its further arguments by their types, in order. */
    private static SubscriptionInfo subscription(final int version) throws Exception {
        final Map<TaskId, Long> sums = new LinkedHashMap<>();
        sums.put(new TaskId(0, 0), -2L);
        sums.put(new TaskId(0, 1), 700L);
        sums.put(new TaskId(1, 0), -3L);
        final int supported = version < 3 ? -1 : latest();
        final Constructor<?> constructor = longest(SubscriptionInfo.class);
        if (constructor.getParameterTypes()[3] == Set.class) {
            final Set<TaskId> active = Set.of(new TaskId(0, 0));
            return (SubscriptionInfo) made(
                constructor, version, supported, PROCESS, active, Set.of(new TaskId(0, 1)), "host:80");
        }
        final Object[] given = {version, supported, PROCESS, "host:80", sums, (byte) 5, 4, Map.of("zone", "a")};
        return (SubscriptionInfo) made(constructor, Arrays.copyOf(given, constructor.getParameterCount()));
    }

    private static AssignmentInfo assignment(final int version) throws Exception {
        final List<TaskId> active = List.of(new TaskId(0, 0), new TaskId(1, 0));
        final Map<TaskId, Set<TopicPartition>> standby = Map.of(new TaskId(0, 1), Set.of(SECOND));
        final Map<HostInfo, Set<TopicPartition>> hosts = Map.of(new HostInfo("host", 80), Set.of(FIRST, SECOND));
        final Constructor<?> constructor = longest(AssignmentInfo.class);
        final int supported = version < 3 ? -1 : latest();
        final AssignmentInfo info = constructor.getParameterCount() == 6
            ? (AssignmentInfo) made(constructor, version, supported, active, standby, hosts, 0)
            : (AssignmentInfo) made(constructor, version, supported, active, standby, hosts, hosts, 0);
        if (version >= 7) {
            AssignmentInfo.class.getMethod("setNextRebalanceTime", long.class).invoke(info, 1_700_000_000_000L);
        }
        return info;
    }

    private static int latest() throws Exception {
        final String name = "org.apache.kafka.streams.processor.internals.assignment.StreamsAssignmentProtocolVersions";
        return Class.forName(name).getField("LATEST_SUPPORTED_VERSION").getInt(null);
    }

    private static Constructor<?> longest(final Class<?> type) {
        return Arrays.stream(type.getDeclaredConstructors())
            .max((one, other) -> Integer.compare(one.getParameterCount(), other.getParameterCount())).orElseThrow();
    }

    private static Object made(final Constructor<?> constructor, final Object... given) throws Exception {
        constructor.setAccessible(true);
        try {
            return constructor.newInstance(given);
        } catch (final InvocationTargetException refused) {
            throw (RuntimeException) refused.getCause();
        }
    }

    private static String hex(final ByteBuffer written) {
        final byte[] bytes = new byte[written.rewind().remaining()];
        written.get(bytes);
        return HEX.formatHex(bytes);
    }
}
