import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A real Kafka Streams application for tests: counts records by key, one subtopology with one store for each topic.
 *
 * <p>Arguments: bootstrap servers, application id, state directory, topics (a,b), standbys, then settings as key=value.
 * The store of a topic T is totals-T, in memory and with a changelog, so no RocksDB is needed. Prints one JSON line at each
 * change: {"event": "state" | "tasks" | "topology", ...}. Reads commands: close, describe.
 */
public final class StreamsApp {
    private static final long LOOK_MS = 50;

    public static void main(final String[] args) throws Exception {
        final String[] topics = args[3].split(",");
        final Topology topology = topology(topics);
        final KafkaStreams streams = new KafkaStreams(topology, settings(args));
        streams.setStateListener((now, before) -> say("{\"event\":\"state\",\"state\":\"" + now + "\"}"));
        streams.start();
        final Thread looking = new Thread(() -> look(streams), "look");
        looking.setDaemon(true);
        looking.start();
        final BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null && !line.equals("close"); line = commands.readLine()) {
            if (line.equals("describe")) {
                say("{\"event\":\"topology\",\"text\":" + quoted(topology.describe().toString()) + "}");
            }
        }
        streams.close(new KafkaStreams.CloseOptions().timeout(Duration.ofSeconds(20)).leaveGroup(true));
        say("{\"event\":\"closed\"}");
    }

    private static Topology topology(final String[] topics) {
        final Topology topology = new Topology();
        for (final String topic : topics) {
            final String store = "totals-" + topic;
            topology.addSource("read-" + topic, Serdes.Bytes().deserializer(), Serdes.ByteArray().deserializer(), topic);
            topology.addProcessor("count-" + topic, () -> new Count(store), "read-" + topic);
            topology.addStateStore(
                Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(store), Serdes.Bytes(), Serdes.Long())
                    .withLoggingEnabled(Map.of()),
                "count-" + topic);
        }
        return topology;
    }

    private static Properties settings(final String[] args) {
        final Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        settings.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, args[4]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, "6000");
        settings.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, "500");
        Arrays.stream(args).skip(5).map(pair -> pair.split("=", 2)).forEach(pair -> settings.put(pair[0], pair[1]));
        return settings;
    }

    /** Tells of the tasks whenever they have changed. */
    private static void look(final KafkaStreams streams) {
        String told = "";
        try {
            while (true) {
                final Collection<ThreadMetadata> threads = streams.metadataForLocalThreads();
                final String now = "{\"event\":\"tasks\",\"active\":" + tasks(threads, true)
                    + ",\"standby\":" + tasks(threads, false)
                    + ",\"threads\":" + quotedAll(threads.stream().map(ThreadMetadata::threadName).sorted().toList()) + "}";
                if (!now.equals(told)) {
                    say(now);
                    told = now;
                }
                Thread.sleep(LOOK_MS);
            }
        } catch (final InterruptedException | IllegalStateException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static String tasks(final Collection<ThreadMetadata> threads, final boolean active) {
        return quotedAll(threads.stream()
            .flatMap(thread -> (active ? thread.activeTasks() : thread.standbyTasks()).stream())
            .map(TaskMetadata::taskId).map(Object::toString).collect(Collectors.toCollection(TreeSet::new)));
    }

    private static String quotedAll(final Collection<String> texts) {
        return texts.stream().map(StreamsApp::quoted).collect(Collectors.joining(",", "[", "]"));
    }

    private static String quoted(final String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + '"';
    }

    private static synchronized void say(final String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static final class Count implements Processor<Bytes, byte[], Void, Void> {
        private final String name;
        private KeyValueStore<Bytes, Long> totals;

        private Count(final String name) {
            this.name = name;
        }

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            totals = context.getStateStore(name);
        }

        @Override
        public void process(final Record<Bytes, byte[]> record) {
            final Long before = totals.get(record.key());
            totals.put(record.key(), before == null ? 1 : before + 1);
        }
    }
}
