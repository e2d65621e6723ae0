import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;

/**
 * What the neighbouring applications share: settings from their arguments, JSON lines out, commands in; no topology.
 * CountingApp does not use it, because it is compiled against 2.4.
 */
final class AppShell {
    private static final long LOOK_MS = 50;
    private static final Duration END = Duration.ofSeconds(60);

    /** Reads bootstrap servers, application id and state directory, then from pairsFrom on key=value pairs. */
    static Properties settings(final String[] args, final int pairsFrom) {
        final Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, "6000");
        settings.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, "500");
        Arrays.stream(args).skip(pairsFrom).map(pair -> pair.split("=", 2))
            .forEach(pair -> settings.put(pair[0], pair[1]));
        return settings;
    }

    /** Starts it, and tells of each state. */
    static void start(final KafkaStreams streams) {
        streams.setStateListener((now, before) -> say("state", "\"state\":" + quoted(now.toString())));
        streams.start();
    }

    /** Tells of the tasks whenever they have changed, from now on. */
    static void tellTasks(final KafkaStreams streams) {
        final Thread looking = new Thread(() -> look(streams), "look");
        looking.setDaemon(true);
        looking.start();
    }

    static void describe(final Topology topology) {
        say("topology", "\"text\":" + quoted(topology.describe().toString()));
    }

    static BufferedReader commands() {
        return new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    }

    /** Leaves the group and ends. */
    static void leave(final KafkaStreams streams) {
        streams.close(new KafkaStreams.CloseOptions().timeout(END).leaveGroup(true));
    }

    /** Ends as Java does by itself, which tells the group nothing. */
    static void stay(final KafkaStreams streams) {
        streams.close(END);
    }

    static void sayClosed() {
        say("closed", "\"done\":true");
    }

    /** Prints one line: the event, and its facts as members of a JSON object. */
    static synchronized void say(final String event, final String facts) {
        System.out.println("{\"event\":\"" + event + "\"," + facts + "}");
        System.out.flush();
    }

    private static void look(final KafkaStreams streams) {
        String printed = "";
        try {
            while (true) {
                final Collection<ThreadMetadata> threads = streams.metadataForLocalThreads();
                final String now = "\"active\":" + tasks(threads, true)
                    + ",\"standby\":" + tasks(threads, false)
                    + ",\"threads\":" + quotedAll(threads.stream().map(ThreadMetadata::threadName).sorted().toList());
                if (!now.equals(printed)) {
                    say("tasks", now);
                    printed = now;
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
        return texts.stream().map(AppShell::quoted).collect(Collectors.joining(",", "[", "]"));
    }

    private static String quoted(final String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + '"';
    }

    private AppShell() {
    }
}
