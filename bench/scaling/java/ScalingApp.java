import java.io.BufferedReader;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts records by key in a RocksDB store with a changelog, and writes each count to the output partition that has
 * the number of the input partition; app.py is the same in Python, records.py describes the bytes.
 *
 * <p>Arguments: bootstrap servers, application id, state directory, input topic, output topic, number of this process,
 * then settings as key=value. Prints the JSON lines of AppShell. Reads the command close (and leave the group).
 */
public final class ScalingApp {
    private static final String STORE = "counts";

    public static void main(final String[] args) throws Exception {
        final Properties settings = AppShell.settings(args, 6);
        if ("streams".equals(settings.getProperty(StreamsConfig.GROUP_PROTOCOL_CONFIG))) {
            // In this protocol the brokers' settings of the group decide, and the client's are refused.
            settings.remove(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG);
            settings.remove(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG);
        }
        final KafkaStreams streams = new KafkaStreams(topology(args[3], args[4], Byte.parseByte(args[5])), settings);
        AppShell.start(streams);
        AppShell.tellTasks(streams);
        final BufferedReader commands = AppShell.commands();
        String line = commands.readLine();
        while (line != null && !line.equals("close")) {
            line = commands.readLine();
        }
        AppShell.leave(streams);
        AppShell.sayClosed();
        Runtime.getRuntime().halt(0);
    }

    private static Topology topology(final String input, final String output, final byte process) {
        final StreamPartitioner<Bytes, byte[]> partitioner =
            (topic, key, value, partitions) -> Optional.of(Set.of(ByteBuffer.wrap(key.get()).getInt()));
        return new Topology()
            .addSource("in", Serdes.Bytes().deserializer(), Serdes.ByteArray().deserializer(), input)
            .addProcessor("count", () -> new Count(process), "in")
            .addStateStore(
                Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.Bytes(), Serdes.Long())
                    .withLoggingEnabled(Map.of()),
                "count")
            .addSink(
                "out", output, Serdes.Bytes().serializer(), Serdes.ByteArray().serializer(), partitioner, "count");
    }

    private static final class Count implements Processor<Bytes, byte[], Bytes, byte[]> {
        private final byte process;
        private ProcessorContext<Bytes, byte[]> context;
        private KeyValueStore<Bytes, Long> counts;

        private Count(final byte process) {
            this.process = process;
        }

        @Override
        public void init(final ProcessorContext<Bytes, byte[]> context) {
            this.context = context;
            counts = context.getStateStore(STORE);
        }

        @Override
        public void process(final Record<Bytes, byte[]> record) {
            final Long before = counts.get(record.key());
            final long count = before == null ? 1 : before + 1;
            counts.put(record.key(), count);
            final byte[] value = ByteBuffer.allocate(record.value().length + Long.BYTES + 1)
                .put(record.value()).putLong(count).put(process).array();
            context.forward(record.withValue(value));
        }
    }
}
