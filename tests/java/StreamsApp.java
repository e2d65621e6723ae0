import java.io.BufferedReader;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A real Kafka Streams application for tests: counts records by key, one subtopology with one store for each topic.
 *
 * <p>Arguments: bootstrap servers, application id, state directory, topics (a,b), standbys, then settings as key=value.
 * The store of a topic T is totals-T, in memory and with a changelog, so no RocksDB is needed. Prints one JSON line at
 * each change: {"event": "state" | "tasks" | "topology", ...}. Reads commands: close (and leave the group), stay (close
 * as Java does by default, without leaving the group), describe, remove-thread, add-thread, shut-down (its next record
 * fails, and the whole application ends).
 */
public final class StreamsApp {
    /** Only one thread fails: if all failed at once, none could notify the group. */
    private static final AtomicBoolean SHALL_FAIL = new AtomicBoolean();
    private static volatile boolean shutDown = false;

    public static void main(final String[] args) throws Exception {
        final String[] topics = args[3].split(",");
        final Topology topology = topology(topics);
        final Properties settings = AppShell.settings(args, 5);
        settings.putIfAbsent(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, args[4]);
        final KafkaStreams streams = new KafkaStreams(topology, settings);
        streams.setUncaughtExceptionHandler(failure -> shutDown
            ? StreamThreadExceptionResponse.SHUTDOWN_APPLICATION : StreamThreadExceptionResponse.SHUTDOWN_CLIENT);
        AppShell.start(streams);
        AppShell.tellTasks(streams);
        final BufferedReader commands = AppShell.commands();
        String line = commands.readLine();
        for (; line != null && !line.equals("close") && !line.equals("stay"); line = commands.readLine()) {
            if (line.equals("describe")) {
                AppShell.describe(topology);
            } else if (line.equals("remove-thread")) {
                streams.removeStreamThread();
            } else if (line.equals("add-thread")) {
                streams.addStreamThread();
            } else if (line.equals("shut-down")) {
                shutDown = true;
                SHALL_FAIL.set(true);
            }
        }
        if ("stay".equals(line)) {
            AppShell.stay(streams);
        } else {
            AppShell.leave(streams);
        }
        AppShell.sayClosed();
        Runtime.getRuntime().halt(0); // a thread that did not end in time would go on for ever
    }

    private static Topology topology(final String[] topics) {
        final Topology topology = new Topology();
        for (final String topic : topics) {
            final String store = "totals-" + topic;
            topology.addSource(
                "read-" + topic, Serdes.Bytes().deserializer(), Serdes.ByteArray().deserializer(), topic);
            topology.addProcessor("count-" + topic, () -> new Count(store), "read-" + topic);
            topology.addStateStore(
                Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(store), Serdes.Bytes(), Serdes.Long())
                    .withLoggingEnabled(Map.of()),
                "count-" + topic);
        }
        return topology;
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
            if (SHALL_FAIL.getAndSet(false)) {
                throw new IllegalStateException("asked to shut the application down");
            }
            final Long before = totals.get(record.key());
            totals.put(record.key(), before == null ? 1 : before + 1);
        }
    }
}
