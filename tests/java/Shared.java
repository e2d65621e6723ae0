import java.io.BufferedReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;

import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.ProcessorMetadata;
import org.apache.kafka.streams.processor.internals.TopicPartitionMetadata;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStoreWithHeaders;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

/**
 * A real Kafka Streams application for tests of shared state: keeps every record in a plain and in a timestamped store,
 * deletes the key of a record without a value, and forwards the record.
 *
 * <p>Arguments: bootstrap servers, application id, state directory, topic (its output is TOPIC-out), then settings as
 * key=value; with keeps.headers=true a third store, headed, keeps the records' headers, too. Prints JSON lines:
 * {"event": "state" | "stores" | "metadata" | "encoded" | "partitions" | "closed", ...}; bytes are hex.
 * Reads commands: stores; decode TEXT; encode TIME NAME=NUMBER...; partitions COUNT HEX...; close.
 */
public final class Shared {
    private static final String NOTE = "last-note";
    private static final Duration LOOK = Duration.ofMillis(20);
    private static volatile String seen = "\"time\":-2,\"note\":null";

    public static void main(final String[] args) throws Exception {
        final Properties settings = AppShell.settings(args, 4);
        final boolean headed = Boolean.parseBoolean(settings.getProperty("keeps.headers"));
        final KafkaStreams streams = new KafkaStreams(topology(args[3], headed), settings);
        AppShell.start(streams);
        final BufferedReader commands = AppShell.commands();
        for (String line = commands.readLine(); line != null && !line.equals("close"); line = commands.readLine()) {
            obey(streams, line.split(" "));
        }
        AppShell.leave(streams);
        AppShell.sayClosed();
    }

    private static void obey(final KafkaStreams streams, final String[] words) {
        switch (words[0]) {
            case "stores" -> {
                // Before the stores, which change while they are read: what was noted by then is in them.
                final String noted = seen;
                final ReadOnlyKeyValueStore<Bytes, byte[]> plain = streams.store(
                    StoreQueryParameters.fromNameAndType("plain", QueryableStoreTypes.keyValueStore()));
                final ReadOnlyKeyValueStore<Bytes, ValueAndTimestamp<byte[]>> stamped = streams.store(
                    StoreQueryParameters.fromNameAndType("stamped", QueryableStoreTypes.timestampedKeyValueStore()));
                AppShell.say("stores", "\"plain\":" + entries(plain.all(), Shared::hex)
                    + ",\"stamped\":" + entries(stamped.all(),
                    found -> "[" + hex(found.value()) + "," + found.timestamp() + "]") + "," + noted);
            }
            case "decode" -> {
                final TopicPartitionMetadata found = TopicPartitionMetadata.decode(words.length > 1 ? words[1] : "");
                AppShell.say("metadata",
                    "\"time\":" + found.partitionTime() + ",\"rest\":" + hex(found.processorMetadata().serialize()));
            }
            case "encode" -> {
                final Map<String, Long> notes = Arrays.stream(words).skip(2).map(pair -> pair.split("="))
                    .collect(Collectors.toMap(
                        pair -> pair[0], pair -> Long.valueOf(pair[1]), (a, b) -> b, TreeMap::new));
                final TopicPartitionMetadata made =
                    new TopicPartitionMetadata(Long.parseLong(words[1]), new ProcessorMetadata(notes));
                AppShell.say("encoded", "\"text\":\"" + made.encode() + "\"");
            }
            case "partitions" -> AppShell.say("partitions", "\"chosen\":" + Arrays.stream(words).skip(2)
                .map(key -> BuiltInPartitioner.partitionForKey(HexFormat.of().parseHex(key.substring(1)),
                    Integer.parseInt(words[1])))
                .map(Object::toString).collect(Collectors.joining(",", "[", "]")));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static Topology topology(final String topic, final boolean headed) {
        final Topology topology = new Topology()
            .addSource("read", Serdes.Bytes().deserializer(), Serdes.ByteArray().deserializer(), topic)
            .addProcessor("keep", () -> new Keep(headed), "read")
            .addStateStore(Stores.keyValueStoreBuilder(
                Stores.inMemoryKeyValueStore("plain"), Serdes.Bytes(), Serdes.ByteArray()), "keep")
            .addStateStore(Stores.timestampedKeyValueStoreBuilder(
                Stores.inMemoryKeyValueStore("stamped"), Serdes.Bytes(), Serdes.ByteArray()), "keep")
            .addSink("write", topic + "-out", Serdes.Bytes().serializer(), Serdes.ByteArray().serializer(), "keep");
        return !headed ? topology : topology.addStateStore(Stores.timestampedKeyValueStoreWithHeadersBuilder(
            Stores.inMemoryKeyValueStore("headed"), Serdes.Bytes(), Serdes.ByteArray()), "keep");
    }

    private static <V> String entries(final KeyValueIterator<Bytes, V> found, final Function<V, String> shown) {
        final Map<String, String> entries = new TreeMap<>();
        try (found) {
            while (found.hasNext()) {
                final KeyValue<Bytes, V> next = found.next();
                entries.put(hex(next.key.get()), shown.apply(next.value));
            }
        }
        return entries.entrySet().stream().map(entry -> entry.getKey() + ":" + entry.getValue())
            .collect(Collectors.joining(",", "{", "}"));
    }

    private static String hex(final byte[] bytes) {
        return '"' + HexFormat.of().formatHex(bytes) + '"';
    }

    private static final class Keep implements Processor<Bytes, byte[], Bytes, byte[]> {
        private ProcessorContext<Bytes, byte[]> context;
        private KeyValueStore<Bytes, byte[]> plain;
        private TimestampedKeyValueStore<Bytes, byte[]> stamped;
        private TimestampedKeyValueStoreWithHeaders<Bytes, byte[]> headed;
        private final boolean hasHeaded;

        private Keep(final boolean hasHeaded) {
            this.hasHeaded = hasHeaded;
        }

        @Override
        public void init(final ProcessorContext<Bytes, byte[]> given) {
            context = given;
            plain = given.getStateStore("plain");
            stamped = given.getStateStore("stamped");
            headed = hasHeaded ? given.getStateStore("headed") : null;
            given.schedule(LOOK, PunctuationType.WALL_CLOCK_TIME, now -> {
                seen = "\"time\":" + given.currentStreamTimeMs()
                    + ",\"note\":" + ((InternalProcessorContext<?, ?>) given).processorMetadataForKey(NOTE);
            });
        }

        @Override
        public void process(final Record<Bytes, byte[]> record) {
            plain.put(record.key(), record.value());
            stamped.put(record.key(), ValueAndTimestamp.make(record.value(), record.timestamp()));
            if (hasHeaded) {
                headed.put(
                    record.key(), ValueTimestampHeaders.make(record.value(), record.timestamp(), record.headers()));
            }
            ((InternalProcessorContext<?, ?>) context).addProcessorMetadataKeyValue(NOTE, record.timestamp() + 1);
            context.forward(record);
        }
    }
}
