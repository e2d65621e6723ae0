package org.apache.kafka.streams.processor.internals.assignment;

import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.function.Function;
import org.apache.kafka.common.*;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.*;

/**
 * Kafka's own classes as a peer: {@code assign} and {@code assign-streams-group} over JSON lines, {@code bench-assign}
 * and {@code bench-codec}. Decides and encodes nothing itself. It stands in Kafka's package because those classes are package-private.
 */
public final class BenchPeer {
    static final ObjectMapper JSON = new ObjectMapper()
        .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
        .enable(DeserializationFeature.FAIL_ON_READING_DUP_TREE_KEY);
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);

    private BenchPeer() { }

    public static void main(final String[] args) throws Exception {
        switch (args.length == 0 ? "help" : args[0]) {
            case "assign" -> converse(BenchPeer::assign);
            case "assign-streams-group" -> converse(StreamsGroups::assign);
            case "streams-group-order" -> converse(StreamsGroups::order);
            case "bench-assign" -> print(BenchTimes.assign(args[1], Double.parseDouble(args[2]), Integer.parseInt(args[3])));
            case "bench-codec" -> BenchTimes.codec(Double.parseDouble(args[1]), Integer.parseInt(args[2]));
            case "info" -> print(info());
            default -> {
                System.err.println("commands: assign | assign-streams-group | streams-group-order | bench-assign CASE SECONDS CALLS < held | bench-codec SECONDS MEMBERS | info");
                System.exit(2);
            }
        }
    }

    static void print(final JsonNode answer) throws IOException {
        OUT.println(JSON.writeValueAsString(answer));
        OUT.flush();
    }

    static ObjectNode info() {
        return JSON.createObjectNode()
            .put("kafka", AppInfoParser.getVersion())
            .put("java", System.getProperty("java.vm.name") + " " + System.getProperty("java.runtime.version"))
            .put("processors", Runtime.getRuntime().availableProcessors())
            .put("load_average", ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage());
    }

    private static void converse(final Function<JsonNode, ObjectNode> answer) throws IOException {
        final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.isBlank()) {
                print(reply(line, answer));
            }
        }
    }

    private static ObjectNode reply(final String line, final Function<JsonNode, ObjectNode> work) {
        final ObjectNode answer = JSON.createObjectNode();
        try {
            final JsonNode request = JSON.readTree(line);
            if (!request.isObject()) {
                throw new IllegalArgumentException("a request is a JSON object");
            }
            if (request.has("id")) {
                answer.set("id", request.get("id"));
            }
            answer.setAll(work.apply(request));
        } catch (final Exception refused) {
            answer.putObject("error").put("class", refused.getClass().getName()).put("message", refused.getMessage());
        }
        return answer;
    }

    private static ObjectNode assign(final JsonNode request) {
        final LegacyTaskAssignor assignor = switch (request.path("assignor").asText()) {
            case "high_availability" -> new HighAvailabilityTaskAssignor();
            case "sticky" -> new LegacyStickyTaskAssignor();
            case "fallback_prior" -> new FallbackPriorTaskAssignor();
            default -> throw new IllegalArgumentException("no such assignor: " + request.path("assignor"));
        };
        final AssignmentConfigs configs = configs(request.path("config"));
        final List<TaskId> listed = tasks(request.path("stateful_tasks"));
        final Set<TaskId> stateful = hashed(listed);
        listed.addAll(tasks(request.path("stateless_tasks")));
        final Set<TaskId> all = hashed(listed);
        if (all.size() != listed.size()) {
            throw new IllegalArgumentException("a task is listed twice");
        }
        final Map<ProcessId, ClientState> clients = new HashMap<>();
        for (final JsonNode client : Objects.requireNonNull(request.get("clients"), "missing clients")) {
            final ProcessId id = new ProcessId(UUID.fromString(client.path("process_id").textValue()));
            if (clients.put(id, client(id, client, request.get("task_end_offset_sums"), all)) != null) {
                throw new IllegalArgumentException("two clients have process_id " + id);
            }
        }
        final ObjectNode explained = explained(clients);
        final boolean probing = assignor.assign(clients, all, stateful, Racks.of(request, configs), configs);
        final ObjectNode answer = JSON.createObjectNode();
        answer.set("clients", placements(clients));
        answer.put("probing_rebalance", probing);
        if (request.path("explain").asBoolean()) {
            answer.set("explain", explained);
        }
        return answer;
    }

    /** A set whose hash table grew task by task in ascending order, as the leader's did: its order counts. */
    static Set<TaskId> hashed(final Collection<TaskId> tasks) {
        final Set<TaskId> set = new HashSet<>();
        set.addAll(new TreeSet<>(tasks));
        return set;
    }

    private static ClientState client(
        final ProcessId id, final JsonNode client, final JsonNode ends, final Set<TaskId> known
    ) {
        final Map<String, String> tags = new HashMap<>();
        client.path("tags").properties().forEach(tag -> tags.put(tag.getKey(), tag.getValue().textValue()));
        final boolean flat = !client.has("consumers");
        refuse(client, ends == null ? List.of("task_offset_sums", "consumers") : List.of("task_lags", "prev_standby"));
        refuse(client, flat ? List.of() : List.of("task_offset_sums", "prev_active"));
        if (ends == null) {
            return new ClientState(
                new HashSet<>(tasks(client.path("prev_active"))), new HashSet<>(tasks(client.path("prev_standby"))),
                sums(client.path("task_lags")), tags, Math.toIntExact(number(client, "threads", 1)), id
            );
        }
        final JsonNode consumers = flat ? JSON.createArrayNode().add(client) : client.get("consumers");
        final int threads = Math.toIntExact(number(client, "threads", flat ? 1 : consumers.size()));
        final ClientState state = new ClientState(id, threads, tags);
        for (final JsonNode consumer : consumers) {
            final String name = flat ? "only" : Objects.requireNonNull(consumer.path("id").textValue(), "missing id");
            state.addOwnedPartitions(tasks(consumer.path("prev_active")).stream().map(BenchPeer::input).toList(), name);
            state.addPreviousTasksAndOffsetSums(name, sums(consumer.path("task_offset_sums")));
        }
        final Map<TopicPartition, TaskId> byInput = new HashMap<>();
        known.forEach(task -> byInput.put(input(task), task));
        state.initializePrevTasks(byInput, false);
        state.computeTaskLags(id, sums(ends));
        return state;
    }

    private static void refuse(final JsonNode request, final List<String> keys) {
        keys.stream().filter(request::has).forEach(key -> {
            throw new IllegalArgumentException(key + " has no place in this form of the request");
        });
    }

    /** One input partition per task, so that the tasks a consumer ran can be given as partitions that it owned. */
    private static TopicPartition input(final TaskId task) {
        return new TopicPartition("input-" + task.subtopology(), task.partition());
    }

    static AssignmentConfigs configs(final JsonNode request) {
        final List<String> tags = new ArrayList<>();
        request.path("rack_aware_assignment_tags").forEach(tag -> tags.add(tag.textValue()));
        return new AssignmentConfigs(
            number(request, "acceptable_recovery_lag", 10_000), Math.toIntExact(number(request, "max_warmup_replicas", 2)),
            Math.toIntExact(number(request, "num_standby_replicas", 0)),
            number(request, "probing_rebalance_interval_ms", 600_000), tags,
            cost(request, "rack_aware_assignment_traffic_cost"), cost(request, "rack_aware_assignment_non_overlap_cost"),
            request.path("rack_aware_assignment_strategy").asText("none")
        );
    }

    private static OptionalInt cost(final JsonNode request, final String key) {
        return request.has(key) ? OptionalInt.of(Math.toIntExact(whole(request.get(key)))) : OptionalInt.empty();
    }

    static RackAwareTaskAssignor rackUnaware(final AssignmentConfigs configs) {
        return new RackAwareTaskAssignor(
            Cluster.empty(), Map.of(), Map.of(), Map.of(), Map.of(), null, configs, Time.SYSTEM
        );
    }

    private static long number(final JsonNode request, final String key, final long fallback) {
        return request.has(key) ? whole(request.get(key)) : fallback;
    }

    private static long whole(final JsonNode value) {
        if (!value.isIntegralNumber() || !value.canConvertToLong()) {
            throw new IllegalArgumentException("not a 64-bit integer: " + value);
        }
        return value.longValue();
    }

    private static List<TaskId> tasks(final JsonNode list) {
        final List<TaskId> tasks = new ArrayList<>();
        list.forEach(task -> tasks.add(TaskId.parse(task.textValue())));
        return tasks;
    }

    private static Map<TaskId, Long> sums(final JsonNode object) {
        final Map<TaskId, Long> sums = new LinkedHashMap<>();
        object.properties().forEach(entry -> sums.put(TaskId.parse(entry.getKey()), whole(entry.getValue())));
        return sums;
    }

    static ObjectNode placements(final Map<ProcessId, ClientState> clients) {
        final ObjectNode answer = JSON.createObjectNode();
        new TreeMap<>(clients).forEach((id, state) -> {
            final ObjectNode client = answer.putObject(id.toString());
            client.set("active", sorted(state.activeTasks()));
            client.set("standby", sorted(state.standbyTasks()));
        });
        return answer;
    }

    private static ObjectNode explained(final Map<ProcessId, ClientState> clients) {
        final ObjectNode answer = JSON.createObjectNode();
        new TreeMap<>(clients).forEach((id, state) -> {
            final ObjectNode client = answer.putObject(id.toString());
            client.set("prev_active", sorted(state.prevActiveTasks()));
            client.set("prev_standby", sorted(state.prevStandbyTasks()));
            final ObjectNode lags = client.putObject("task_lags");
            state.taskLagTotals().forEach((task, lag) -> lags.put(task.toString(), lag));
        });
        return answer;
    }

    static ArrayNode sorted(final Collection<TaskId> tasks) {
        final ArrayNode list = JSON.createArrayNode();
        tasks.stream().sorted(Comparator
            .comparing(TaskId::topologyName, Comparator.nullsFirst(Comparator.naturalOrder()))
            .thenComparing(TaskId::subtopology).thenComparing(TaskId::partition)).forEach(task -> list.add(task.toString()));
        return list;
    }
}
