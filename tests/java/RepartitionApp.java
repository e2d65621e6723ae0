import java.io.BufferedReader;
import java.util.Arrays;
import java.util.Properties;
import java.util.regex.Pattern;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.state.Stores;

/**
 * A real Kafka Streams application with repartition topics, for tests.
 *
 * <p>Arguments: bootstrap servers, application id, state directory, shape, prefix of its topics, then settings as
 * key=value. The shape "words" counts the words of the lines in PREFIX-lines, through a groupBy; "pattern" does so with
 * the lines of every topic whose name begins with PREFIX-lines. "everything" adds a repartition topic with an explicit
 * number of partitions, another that is joined with a table, and that table, whose source topic is its changelog.
 * "global" counts the words as "words" does, beside a global table of PREFIX-names. "joins" has no words: it joins
 * PREFIX-purchases with the table of PREFIX-prices, and PREFIX-clicks with that of PREFIX-users, in one subtopology.
 * Stores are in memory. Prints one JSON line at each change: {"event": "state" | "tasks" | "topology", ...}. Commands:
 * close, describe.
 */
public final class RepartitionApp {
    public static void main(final String[] args) throws Exception {
        final Properties settings = AppShell.settings(args, 5);
        settings.putIfAbsent(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE);
        final Topology topology = topology(args[3], args[4], settings);
        final KafkaStreams streams = new KafkaStreams(topology, settings);
        AppShell.start(streams);
        AppShell.tellTasks(streams);
        final BufferedReader commands = AppShell.commands();
        for (String line = commands.readLine(); line != null && !line.equals("close"); line = commands.readLine()) {
            if (line.equals("describe")) {
                AppShell.describe(topology);
            }
        }
        AppShell.leave(streams);
        AppShell.sayClosed();
    }

    private static Topology topology(final String shape, final String prefix, final Properties settings) {
        final StreamsBuilder builder = new StreamsBuilder();
        final Consumed<String, String> texts = Consumed.with(Serdes.String(), Serdes.String());
        if (shape.equals("joins")) {
            joined(builder, texts, prefix + "-purchases", prefix + "-prices", "prices")
                .merge(joined(builder, texts, prefix + "-clicks", prefix + "-users", "users"))
                .to(prefix + "-out", Produced.with(Serdes.String(), Serdes.String()));
            return builder.build(settings);
        }
        if (shape.equals("global")) {
            builder.globalTable(prefix + "-names", texts,
                Materialized.<String, String>as(Stores.inMemoryKeyValueStore("names"))
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
        }
        final KStream<String, String> lines = shape.equals("pattern")
            ? builder.stream(Pattern.compile(prefix + "-lines.*"), texts)
            : builder.stream(prefix + "-lines", texts);
        lines
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()).withCachingDisabled());
        if (shape.equals("everything")) {
            builder.stream(prefix + "-clicks", texts)
                .repartition(Repartitioned.with(Serdes.String(), Serdes.String())
                    .withName("given").withNumberOfPartitions(7))
                .to(prefix + "-out", Produced.with(Serdes.String(), Serdes.String()));
            final KTable<String, String> customers = builder.table(prefix + "-customers", texts,
                Materialized.<String, String>as(Stores.inMemoryKeyValueStore("customers"))
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
            builder.stream(prefix + "-orders", texts)
                .selectKey((key, order) -> order)
                .join(customers, (order, customer) -> customer,
                    Joined.with(Serdes.String(), Serdes.String(), Serdes.String(), "joined"))
                .to(prefix + "-out", Produced.with(Serdes.String(), Serdes.String()));
        }
        return builder.build(settings);
    }

    private static KStream<String, String> joined(
        final StreamsBuilder builder,
        final Consumed<String, String> texts,
        final String stream,
        final String table,
        final String store
    ) {
        final KTable<String, String> rows = builder.table(table, texts,
            Materialized.<String, String>as(Stores.inMemoryKeyValueStore(store))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
        return builder.stream(stream, texts).join(rows, (record, row) -> record + " " + row,
            Joined.with(Serdes.String(), Serdes.String(), Serdes.String()));
    }
}
