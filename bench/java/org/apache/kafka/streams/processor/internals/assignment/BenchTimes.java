package org.apache.kafka.streams.processor.internals.assignment;

import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.*;
import java.util.function.*;
import java.util.stream.*;
import org.apache.kafka.common.*;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.*;
import org.apache.kafka.streams.processor.internals.Task;
import org.apache.kafka.streams.state.HostInfo;

/** How long Kafka's classes take. The problems and the pieces of work are those of {@code kstreams_assign.peer.bench_*}. */
final class BenchTimes {
    private static final long END_OFFSET_SUM = 100_000;
    private static final int BATCHES = 5;
    private static Object sink;

    private BenchTimes() { }

    /** The same problem as ours: one stateful subtopology, all sums equal, process ids 0, 1, 2 ... */
    private static final class Problem {
        final int[] size;
        final List<List<Set<TaskId>>> held;
        final Set<TaskId> stateful;
        final Map<TaskId, Long> ends = new HashMap<>();
        final AssignmentConfigs configs;

        Problem(final String size, final List<String> held) {
            this.size = List.of(size.split("x")).stream().mapToInt(Integer::parseInt).toArray();
            this.held = held.stream().map(Problem::read).toList();
            stateful = BenchPeer.hashed(IntStream.range(0, this.size[0]).mapToObj(n -> new TaskId(0, n)).toList());
            stateful.forEach(task -> ends.put(task, END_OFFSET_SUM));
            configs = BenchPeer.configs(BenchPeer.JSON.createObjectNode().put("num_standby_replicas", this.size[3]));
        }

        static List<Set<TaskId>> read(final String line) {
            return List.of(line.split("\\|", -1)).stream().map(half -> List.of(half.split(" ")).stream()
                .filter(word -> !word.isEmpty()).map(word -> new TaskId(0, Integer.parseInt(word)))
                .collect(Collectors.<TaskId, Set<TaskId>>toCollection(LinkedHashSet::new))).toList();
        }

        Map<ProcessId, ClientState> clients() {
            final Map<ProcessId, ClientState> clients = new HashMap<>();
            for (int n = 0; n < (held.isEmpty() ? size[1] : held.size() + 1); n++) {
                final Map<TaskId, Long> sums = new HashMap<>();
                if (n < held.size()) {
                    held.get(n).get(0).forEach(task -> sums.put(task, Task.LATEST_OFFSET));
                    held.get(n).get(1).forEach(task -> sums.put(task, END_OFFSET_SUM));
                }
                final ProcessId id = new ProcessId(new UUID(0, n));
                final ClientState state = new ClientState(id, size[2], Map.of());
                state.addPreviousTasksAndOffsetSums("only", sums);
                state.initializePrevTasks(Map.of(), false);
                state.computeTaskLags(id, ends);
                clients.put(id, state);
            }
            return clients;
        }

        /** Wall and processor nanoseconds of one call on these clients. */
        long[] call(final Map<ProcessId, ClientState> clients) {
            final RackAwareTaskAssignor rackUnaware = BenchPeer.rackUnaware(configs);
            final long cpu = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            final long began = System.nanoTime();
            sink = new HighAvailabilityTaskAssignor().assign(clients, stateful, stateful, rackUnaware, configs);
            final long ended = System.nanoTime();
            return new long[] {ended - began, ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - cpu};
        }
    }

    /** Standard input tells what each client holds: {@code ACTIVE ...|STANDBY ...}, a line each; nothing: a fresh start. */
    static ObjectNode assign(final String size, final double seconds, final int least) throws Exception {
        final Problem problem = new Problem(size, new BufferedReader(new InputStreamReader(System.in)).lines().toList());
        final Map<ProcessId, ClientState> clients = problem.clients();
        final long[] first = problem.call(clients);
        final ObjectNode row = BenchPeer.JSON.createObjectNode().put("case", size)
            .put("state", problem.held.isEmpty() ? "fresh" : "join")
            .put("first_call_ms", first[0] / 1e6).put("first_call_cpu_ms", first[1] / 1e6)
            .put("probing_rebalance", (Boolean) sink)
            .put("assignment_sha256", HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256")
                .digest(BenchPeer.JSON.writeValueAsBytes(BenchPeer.placements(clients)))));
        final List<Long> walls = new ArrayList<>();
        final List<Long> cpus = new ArrayList<>();
        final long began = System.nanoTime();
        // a quarter of the time, and at least one call, warms up; clients are made off the clock
        for (int calls = 0; ; calls++) {
            final double spent = (System.nanoTime() - began) / 1e9;
            if (walls.size() >= least && spent >= seconds) {
                break;
            }
            final long[] took = problem.call(problem.clients());
            if (calls > 0 && spent >= seconds / 4) {
                walls.add(took[0]);
                cpus.add(took[1]);
            }
        }
        return row.put("warm_calls", walls.size()).put("warm_median_ms", median(walls) / 1e6)
            .put("warm_median_cpu_ms", median(cpus) / 1e6).set("about", BenchPeer.info());
    }

    private static double median(final List<? extends Number> values) {
        return values.stream().mapToDouble(Number::doubleValue).sorted().toArray()[values.size() / 2];
    }

    static void codec(final double seconds, final int members) throws IOException {
        final Map<TaskId, Long> sums = reportedSums(7);
        final Map<HostInfo, Set<TopicPartition>> hosts = new LinkedHashMap<>();
        for (int n = 0; n < 100; n++) {
            final int host = n;
            hosts.put(new HostInfo("host-" + host + ".example.org", 8080), IntStream.range(0, 60)
                .mapToObj(p -> new TopicPartition("topic-" + p % 10, host * 6 + p / 10))
                .collect(Collectors.<TopicPartition, Set<TopicPartition>>toCollection(LinkedHashSet::new)));
        }
        final List<TaskId> active = List.copyOf(sums.keySet());
        final Iterator<ByteBuffer> subscriptions = Stream.generate(IntStream.range(0, 300)
            .mapToObj(n -> subscription(n, reportedSums(n))).toList()::stream).flatMap(Function.identity()).iterator();
        final ByteBuffer subscription = subscription(7, sums);
        final ByteBuffer assignment = new AssignmentInfo(11, 11, active, Map.of(), hosts, Map.of(), 0).encode();
        rate("subscription encode", seconds, () -> subscription(7, sums));
        rate("subscription decode and sums", seconds, () -> sums(subscriptions.next()));
        rate("subscription decode and sums, known tasks", seconds, () -> sums(subscription));
        rate("subscription round trip, known tasks", seconds, () -> sums(subscription(7, sums)));
        rate("assignment encode", seconds, () -> new AssignmentInfo(11, 11, active, Map.of(), hosts, Map.of(), 0).encode());
        rate("assignment decode", seconds, () -> AssignmentInfo.decode(assignment.duplicate()));
        rate("assignment round trip", seconds, () -> AssignmentInfo.decode(
            new AssignmentInfo(11, 11, active, Map.of(), hosts, Map.of(), 0).encode()));
        final List<ByteBuffer> joined = IntStream.range(0, members).mapToObj(n -> subscription(n, reportedSums(n))).toList();
        rate(String.format("leader reads %,d subscriptions", members), seconds, () -> joined.stream().map(BenchTimes::sums).toList());
        final Map<TaskId, Long> ends = new HashMap<>();
        IntStream.range(0, members).forEach(n -> reportedSums(n).keySet().forEach(task -> ends.put(task, 2_000_000L)));
        rate(String.format("leader makes %,d clients of subscriptions", members), seconds,
            () -> joined.stream().map(bytes -> client(bytes, ends)).toList());
        final List<AssignmentInfo> answers = IntStream.range(0, members).mapToObj(n -> memberAssignment(n, hosts)).toList();
        rate(String.format("leader writes %,d assignments", members), seconds, () -> answers.stream().map(AssignmentInfo::encode).toList());
    }

    /** Ten subtopologies with 100 tasks each; the next member has the next partitions. A third is running there. */
    private static Map<TaskId, Long> reportedSums(final int member) {
        final Map<TaskId, Long> sums = new LinkedHashMap<>();
        IntStream.range(0, 1000).forEach(n ->
            sums.put(new TaskId(n / 100, member + n % 100), n % 3 == 0 ? Task.LATEST_OFFSET : 1_000_000L + n));
        return sums;
    }

    private static ByteBuffer subscription(final int process, final Map<TaskId, Long> sums) {
        return new SubscriptionInfo(11, 11, new ProcessId(new UUID(0, process)), "host-" + process + ".example.org:8080",
            sums, (byte) 1, 0, Map.of("zone", "eu-1")).encode();
    }

    private static Map<TaskId, Long> sums(final ByteBuffer subscription) {
        return SubscriptionInfo.decode(subscription.duplicate()).taskOffsetSums();
    }

    /** What an assignor reads: a process's previous tasks and its lag for each task of the group. */
    private static ClientState client(final ByteBuffer subscription, final Map<TaskId, Long> ends) {
        final SubscriptionInfo info = SubscriptionInfo.decode(subscription.duplicate());
        final ClientState state = new ClientState(info.processId(), 1, info.clientTags());
        state.addPreviousTasksAndOffsetSums("only", info.taskOffsetSums());
        state.initializePrevTasks(Map.of(), false);
        state.computeTaskLags(info.processId(), ends);
        return state;
    }

    /** Six active tasks and six standbys for each member, and the endpoints of all. */
    private static AssignmentInfo memberAssignment(final int member, final Map<HostInfo, Set<TopicPartition>> hosts) {
        final List<TaskId> tasks = IntStream.range(0, 12).mapToObj(n -> new TaskId(n % 10, member)).toList();
        final Map<TaskId, Set<TopicPartition>> standby = new LinkedHashMap<>();
        tasks.subList(6, 12).forEach(task ->
            standby.put(task, Set.of(new TopicPartition("topic-" + task.subtopology(), task.partition()))));
        return new AssignmentInfo(11, 11, tasks.subList(0, 6), standby, hosts, hosts, 0);
    }

    private static void rate(final String what, final double seconds, final Supplier<?> work) throws IOException {
        final int batches = loop(seconds, work)[0] * seconds < 1 ? 1 : BATCHES;
        final List<Double> rates = new ArrayList<>();
        final List<Double> cpuRates = new ArrayList<>();
        for (int batch = 0; batch < batches; batch++) {
            final double[] measured = loop(seconds / BATCHES, work);
            rates.add(measured[0]);
            cpuRates.add(measured[1]);
        }
        final ObjectNode row = BenchPeer.JSON.createObjectNode().put("what", what).put("median_ops_per_s", median(rates))
            .put("median_ops_per_cpu_s", median(cpuRates));
        row.set("about", BenchPeer.info());
        BenchPeer.print(row);
    }

    /** Calls a second, and calls a second of the whole process's processor time. */
    private static double[] loop(final double seconds, final Supplier<?> work) {
        final var processors = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        final long beganCpu = processors.getProcessCpuTime();
        final long began = System.nanoTime();
        for (long calls = 1; ; calls++) {
            sink = work.get();
            final double spent = (System.nanoTime() - began) / 1e9;
            if (spent >= seconds) {
                return new double[] {calls / spent, calls / (Math.max(1, processors.getProcessCpuTime() - beganCpu) / 1e9)};
            }
        }
    }
}
