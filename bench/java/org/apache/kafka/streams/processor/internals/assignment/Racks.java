package org.apache.kafka.streams.processor.internals.assignment;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.*;
import org.apache.kafka.streams.processor.internals.InternalTopicManager;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;

/**
 * The racks of a request: {@code partition_racks} gives the racks of the replicas of each task's source and changelog
 * partitions, {@code rack} or {@code consumer_racks} of a client those of its consumers; null is a broker, or a consumer, without one.
 */
final class Racks {
    private static final StreamsConfig ANY = new StreamsConfig(Map.of("application.id", "any", "bootstrap.servers", "none:1"));
    private final Map<TaskId, Set<TopicPartition>> sources = new HashMap<>();
    private final Map<TaskId, Set<TopicPartition>> changelogs = new HashMap<>();
    private final List<PartitionInfo> infos = new ArrayList<>();
    private final Map<String, List<TopicPartitionInfo>> described = new HashMap<>();
    private final Map<String, Node> brokers = new HashMap<>();

    private Racks() { }

    /** What Kafka's leader would make of it; nothing is known where the request has no {@code partition_racks}. */
    static RackAwareTaskAssignor of(final JsonNode request, final AssignmentConfigs configs) {
        if (!request.has("partition_racks")) {
            return BenchPeer.rackUnaware(configs);
        }
        final Racks racks = new Racks();
        final Map<Subtopology, Set<TaskId>> groups = new HashMap<>();
        request.path("partition_racks").path("source").properties().forEach(entry -> {
            final TaskId task = TaskId.parse(entry.getKey());
            groups.computeIfAbsent(new Subtopology(task.subtopology(), task.topologyName()), any -> new HashSet<>()).add(task);
            racks.read("source", task, entry.getValue(), racks.sources);
        });
        request.path("partition_racks").path("changelog").properties().forEach(entry ->
            racks.read("changelog", TaskId.parse(entry.getKey()), entry.getValue(), racks.changelogs));
        final Map<ProcessId, Map<String, Optional<String>>> consumers = new HashMap<>();
        request.path("clients").forEach(client -> consumers.put(
            new ProcessId(UUID.fromString(client.path("process_id").textValue())), consumerRacks(client)));
        final Cluster cluster = new Cluster("any", racks.brokers.values(), racks.infos, Set.of(), Set.of());
        return new RackAwareTaskAssignor(
            cluster, racks.sources, racks.changelogs, groups, consumers, racks.topics(), configs, Time.SYSTEM
        );
    }

    private static Map<String, Optional<String>> consumerRacks(final JsonNode client) {
        final Map<String, Optional<String>> racks = new LinkedHashMap<>();
        if (!client.has("consumer_racks")) {
            racks.put("only", Optional.ofNullable(client.path("rack").textValue()));
        }
        client.path("consumer_racks").forEach(rack -> racks.put("c" + racks.size(), Optional.ofNullable(rack.textValue())));
        return racks;
    }

    private void read(final String kind, final TaskId task, final JsonNode partitions, final Map<TaskId, Set<TopicPartition>> to) {
        to.put(task, new HashSet<>());
        partitions.forEach(partition -> {
            final String topic = kind + to.get(task).size() + "-" + task.topologyName() + "-" + task.subtopology();
            final List<Node> replicas = new ArrayList<>();
            partition.forEach(rack -> replicas.add(brokers.computeIfAbsent(
                String.valueOf(rack.textValue()), any -> new Node(brokers.size(), "broker", 1, rack.textValue()))));
            to.get(task).add(new TopicPartition(topic, task.partition()));
            final Node[] all = replicas.toArray(Node[]::new);
            if (kind.equals("source")) {
                infos.add(new PartitionInfo(topic, task.partition(), null, all, all));
            }
            described.computeIfAbsent(topic, any -> new ArrayList<>())
                .add(new TopicPartitionInfo(task.partition(), null, replicas, replicas));
        });
    }

    private InternalTopicManager topics() {
        return new InternalTopicManager(Time.SYSTEM, null, ANY) {
            @Override
            public Map<String, List<TopicPartitionInfo>> getTopicPartitionInfo(final Set<String> topics) {
                final Map<String, List<TopicPartitionInfo>> partitions = new HashMap<>(described);
                partitions.keySet().retainAll(topics);
                return partitions;
            }
        };
    }
}
