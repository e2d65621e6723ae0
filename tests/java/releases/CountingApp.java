import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * StreamsApp's application with the API of all releases of Kafka Streams from 2.4 on: counts records by key, in memory.
 *
 * <p>Compiled once, against the oldest release, and run with any. Calls whose names changed are looked up. Arguments,
 * events and commands are StreamsApp's: it prints {"event": "state" | "tasks" | "failed", ...} and reads close.
 */
public final class CountingApp {
    private static final long LOOK_MS = 50;

    public static void main(final String[] args) throws Exception {
        final StreamsBuilder builder = new StreamsBuilder();
        for (final String topic : args[3].split(",")) {
            builder.stream(topic, Consumed.with(Serdes.Bytes(), Serdes.ByteArray()))
                .groupByKey(Grouped.with(Serdes.Bytes(), Serdes.ByteArray()))
                .count(Materialized.<Bytes, Long>as(Stores.inMemoryKeyValueStore("totals-" + topic))
                    .withKeySerde(Serdes.Bytes())
                    .withValueSerde(Serdes.Long())
                    .withCachingDisabled());
        }
        final KafkaStreams streams = new KafkaStreams(builder.build(), settings(args));
        streams.setStateListener((now, before) -> say("{\"event\":\"state\",\"state\":\"" + now + "\"}"));
        streams.start();
        final Thread looking = new Thread(() -> look(streams), "look");
        looking.setDaemon(true);
        looking.start();
        final BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line = commands.readLine();
        while (line != null && !line.equals("close")) {
            line = commands.readLine();
        }
        streams.close(Duration.ofSeconds(60));
        say("{\"event\":\"closed\"}");
    }

    private static Properties settings(final String[] args) {
        final Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("application.id", args[1]);
        settings.put("state.dir", args[2]);
        settings.put("num.standby.replicas", args[4]);
        settings.put("commit.interval.ms", "100");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "500");
        settings.put("internal.leave.group.on.close", "true"); // there is no public way
        Arrays.stream(args).skip(5).map(pair -> pair.split("=", 2)).forEach(pair -> settings.put(pair[0], pair[1]));
        return settings;
    }

    /** Prints the tasks whenever they have changed. */
    private static void look(final KafkaStreams streams) {
        String printed = "";
        try {
            while (true) {
                final Collection<?> threads = (Collection<?>) threads(streams);
                final String now = "{\"event\":\"tasks\",\"active\":" + tasks(threads, "activeTasks")
                    + ",\"standby\":" + tasks(threads, "standbyTasks") + "}";
                if (!now.equals(printed)) {
                    say(now);
                    printed = now;
                }
                Thread.sleep(LOOK_MS);
            }
        } catch (final InterruptedException | IllegalStateException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static Object threads(final KafkaStreams streams) {
        final String name = Arrays.stream(KafkaStreams.class.getMethods()).map(method -> method.getName())
            .anyMatch("metadataForLocalThreads"::equals) ? "metadataForLocalThreads" : "localThreadsMetadata";
        return called(streams, name);
    }

    private static String tasks(final Collection<?> threads, final String role) {
        return threads.stream()
            .flatMap(thread -> ((Collection<?>) called(thread, role)).stream())
            .map(task -> called(task, "taskId").toString())
            .collect(Collectors.toCollection(TreeSet::new)).stream()
            .map(task -> '"' + task + '"').collect(Collectors.joining(",", "[", "]"));
    }

    private static Object called(final Object on, final String name) {
        try {
            return on.getClass().getMethod(name).invoke(on);
        } catch (final ReflectiveOperationException gone) {
            throw new IllegalStateException(gone);
        }
    }

    private static synchronized void say(final String line) {
        System.out.println(line);
        System.out.flush();
    }
}
