import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;

/**
 * Restores one RocksDB store and tells how long that took, from the first onRestoreStart to the last onRestoreEnd.
 *
 * <p>Arguments: bootstrap servers, application id, state directory, input topic, number of its partitions, then settings as
 * key=value. Prints one JSON line when all is restored, and ends.
 */
public final class RestoreApp {
    public static void main(final String[] args) throws Exception {
        final Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        for (int more = 5; more < args.length; more++) {
            final String[] pair = args[more].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        final Topology topology = new Topology();
        topology.addSource("in", Serdes.Bytes().deserializer(), Serdes.ByteArray().deserializer(), args[3]);
        topology.addProcessor("keep", Keep::new, "in");
        topology.addStateStore(
            Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("totals"), Serdes.Bytes(), Serdes.ByteArray())
                .withLoggingEnabled(Map.of()),
            "keep");
        final KafkaStreams streams = new KafkaStreams(topology, settings);
        final CountDownLatch left = new CountDownLatch(Integer.parseInt(args[4]));
        streams.setGlobalStateRestoreListener(new Watch(left));
        streams.start();
        left.await();
        streams.close(new KafkaStreams.CloseOptions().leaveGroup(true));
    }

    private static final class Watch implements StateRestoreListener {
        private final CountDownLatch left;
        private long began;
        private long restored;

        private Watch(final CountDownLatch left) {
            this.left = left;
        }

        @Override
        public synchronized void onRestoreStart(
            final TopicPartition partition, final String store, final long first, final long end) {
            began = began == 0 ? System.nanoTime() : began;
        }

        @Override
        public void onBatchRestored(
            final TopicPartition partition, final String store, final long reached, final long records) {
        }

        @Override
        public synchronized void onRestoreEnd(final TopicPartition partition, final String store, final long records) {
            restored += records;
            if (left.getCount() == 1) {
                final double seconds = (System.nanoTime() - began) / 1e9;
                System.out.println("{\"records\": " + restored + ", \"seconds\": " + seconds + "}");
                System.out.flush();
            }
            left.countDown();
        }
    }

    private static final class Keep implements Processor<Bytes, byte[], Void, Void> {
        @Override
        public void process(final Record<Bytes, byte[]> record) {
        }
    }
}
