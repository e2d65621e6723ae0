package org.apache.kafka.streams.processor.internals.assignment;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.coordinator.group.streams.assignor.*;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/** The broker's side of streams groups: its sticky assignor, and the order of its table of members. */
final class StreamsGroups {
    private StreamsGroups() { }

    /** Members go into a hash table in the order of the request, as TargetAssignmentBuilder puts them there. */
    static ObjectNode assign(final JsonNode request) {
        final Map<String, AssignmentMemberSpec> members = new HashMap<>();
        for (final JsonNode member : Objects.requireNonNull(request.get("members"), "missing members")) {
            final String id = Objects.requireNonNull(member.path("member_id").textValue(), "missing member_id");
            final AssignmentMemberSpec other = members.put(id, new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(member.path("active")), tasks(member.path("standby")),
                tasks(member.path("warmup")), Objects.requireNonNull(member.path("process_id").textValue(), "missing process_id"),
                Map.of(), Map.of(), Map.of()
            ));
            if (other != null) {
                throw new IllegalArgumentException("a member is listed twice: " + id);
            }
        }
        final Map<String, String> configs = Map.of("num.standby.replicas", request.path("num_standby_replicas").asText("0"));
        final GroupAssignment assigned = new StickyTaskAssignor().assign(
            new GroupSpecImpl(Collections.unmodifiableMap(members), configs), new Topology(request.path("subtopologies"))
        );
        final ObjectNode answer = BenchPeer.JSON.createObjectNode();
        final ObjectNode placed = answer.putObject("members");
        new TreeMap<>(assigned.members()).forEach((id, tasks) -> {
            final ObjectNode member = placed.putObject(id);
            member.set("active", BenchPeer.sorted(ids(tasks.activeTasks())));
            member.set("standby", BenchPeer.sorted(ids(tasks.standbyTasks())));
            member.set("warmup", BenchPeer.sorted(ids(tasks.warmupTasks())));
        });
        return answer;
    }

    /** The order in which the coordinator's table gives its keys after "+key" and "-key" were applied in turn. */
    static ObjectNode order(final JsonNode request) {
        final TimelineHashMap<String, Boolean> table = new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        for (final JsonNode step : request.path("steps")) {
            final String key = step.textValue().substring(1);
            if (step.textValue().charAt(0) == '+') {
                table.put(key, true);
            } else {
                table.remove(key);
            }
        }
        final ObjectNode answer = BenchPeer.JSON.createObjectNode();
        table.forEach((key, value) -> answer.withArray("order").add(key));
        return answer;
    }

    private static Map<String, Set<Integer>> tasks(final JsonNode list) {
        final Map<String, Set<Integer>> tasks = new HashMap<>();
        for (final JsonNode text : list) {
            final TaskId task = TaskId.parse(text.textValue());
            tasks.computeIfAbsent(Integer.toString(task.subtopology()), key -> new HashSet<>()).add(task.partition());
        }
        return tasks;
    }

    private static List<TaskId> ids(final Map<String, Set<Integer>> tasks) {
        final List<TaskId> ids = new ArrayList<>();
        tasks.forEach((subtopology, partitions) ->
            partitions.forEach(partition -> ids.add(new TaskId(Integer.parseInt(subtopology), partition))));
        return ids;
    }

    /** Subtopologies in the order of their ids, which are strings to the broker. */
    private static final class Topology implements TopologyDescriber {
        private final SortedMap<String, JsonNode> subtopologies = new TreeMap<>();

        Topology(final JsonNode described) {
            described.properties().forEach(entry -> subtopologies.put(entry.getKey(), entry.getValue()));
        }

        @Override
        public List<String> subtopologies() {
            return List.copyOf(subtopologies.keySet());
        }

        @Override
        public int maxNumInputPartitions(final String subtopology) {
            return subtopologies.get(subtopology).path("tasks").intValue();
        }

        @Override
        public boolean isStateful(final String subtopology) {
            return subtopologies.get(subtopology).path("stateful").booleanValue();
        }
    }
}
