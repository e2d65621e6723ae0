import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Count per key as a Java developer would write it: a RocksDB store with a changelog, and each new count sent on.
 *
 * <p>Arguments: bootstrap servers, application id, state directory, input topic, output topic. Runs until it is killed.
 */
public final class CountApp {
    public static void main(final String[] args) {
        final Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        final Topology topology = new Topology();
        topology.addSource("in", Serdes.Bytes().deserializer(), Serdes.ByteArray().deserializer(), args[3]);
        topology.addProcessor("count", Count::new, "in");
        topology.addStateStore(
            Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("counts"), Serdes.Bytes(), Serdes.Long())
                .withLoggingEnabled(Map.of()),
            "count");
        topology.addSink("out", args[4], Serdes.Bytes().serializer(), Serdes.Long().serializer(), "count");
        new KafkaStreams(topology, settings).start();
    }

    private static final class Count implements Processor<Bytes, byte[], Bytes, Long> {
        private ProcessorContext<Bytes, Long> context;
        private KeyValueStore<Bytes, Long> counts;

        @Override
        public void init(final ProcessorContext<Bytes, Long> here) {
            context = here;
            counts = here.getStateStore("counts");
        }

        @Override
        public void process(final Record<Bytes, byte[]> record) {
            final Long before = counts.get(record.key());
            final long now = before == null ? 1 : before + 1;
            counts.put(record.key(), now);
            context.forward(record.withValue(now));
        }
    }
}
