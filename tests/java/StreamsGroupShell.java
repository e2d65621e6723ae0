import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberAssignment;
import org.apache.kafka.clients.admin.StreamsGroupMemberDescription;
import org.apache.kafka.clients.admin.StreamsGroupSubtopologyDescription;

/**
 * Java's own description of streams groups. Argument: bootstrap servers. Reads the name of a group in each line and
 * prints what Admin.describeStreamsGroups returns for it, as one line of JSON with the names of Java's methods.
 */
public final class StreamsGroupShell {
    public static void main(final String[] args) throws Exception {
        final ObjectMapper json = new ObjectMapper();
        final BufferedReader groups = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Admin admin = Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]))) {
            for (String group = groups.readLine(); group != null; group = groups.readLine()) {
                final StreamsGroupDescription described =
                    admin.describeStreamsGroups(List.of(group)).describedGroups().get(group).get();
                System.out.println(json.writeValueAsString(group(described)));
            }
        }
    }

    private static Map<String, Object> group(final StreamsGroupDescription group) {
        final Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("groupId", group.groupId());
        facts.put("groupState", group.groupState().toString());
        facts.put("groupEpoch", group.groupEpoch());
        facts.put("targetAssignmentEpoch", group.targetAssignmentEpoch());
        facts.put("topologyEpoch", group.topologyEpoch());
        facts.put("subtopologies", group.subtopologies().stream().map(StreamsGroupShell::subtopology).toList());
        facts.put("members", group.members().stream().map(StreamsGroupShell::member).toList());
        return facts;
    }

    private static Map<String, Object> subtopology(final StreamsGroupSubtopologyDescription subtopology) {
        return Map.of(
            "subtopologyId", subtopology.subtopologyId(),
            "sourceTopics", subtopology.sourceTopics(),
            "repartitionSinkTopics", subtopology.repartitionSinkTopics(),
            "repartitionSourceTopics", topics(subtopology.repartitionSourceTopics()),
            "stateChangelogTopics", topics(subtopology.stateChangelogTopics()));
    }

    private static Map<String, Object> topics(
        final Map<String, StreamsGroupSubtopologyDescription.TopicInfo> topics
    ) {
        final Map<String, Object> facts = new LinkedHashMap<>();
        topics.forEach((name, topic) -> facts.put(name, Map.of(
            "partitions", topic.partitions(),
            "replicationFactor", topic.replicationFactor(),
            "topicConfigs", topic.topicConfigs())));
        return facts;
    }

    private static Map<String, Object> member(final StreamsGroupMemberDescription member) {
        final Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("memberId", member.memberId());
        facts.put("memberEpoch", member.memberEpoch());
        facts.put("instanceId", member.instanceId().orElse(null));
        facts.put("rackId", member.rackId().orElse(null));
        facts.put("clientId", member.clientId());
        facts.put("clientHost", member.clientHost());
        facts.put("topologyEpoch", member.topologyEpoch());
        facts.put("processId", member.processId());
        facts.put("userEndpoint", member.userEndpoint().map(at -> at.host() + ":" + at.port()).orElse(null));
        facts.put("clientTags", member.clientTags());
        facts.put("isClassic", member.isClassic());
        facts.put("assignment", assignment(member.assignment()));
        facts.put("targetAssignment", assignment(member.targetAssignment()));
        return facts;
    }

    private static Map<String, Object> assignment(final StreamsGroupMemberAssignment assignment) {
        return Map.of(
            "activeTasks", tasks(assignment.activeTasks()),
            "standbyTasks", tasks(assignment.standbyTasks()),
            "warmupTasks", tasks(assignment.warmupTasks()));
    }

    private static List<String> tasks(final Collection<StreamsGroupMemberAssignment.TaskIds> tasks) {
        return tasks.stream()
            .flatMap(each -> each.partitions().stream().map(partition -> each.subtopologyId() + "_" + partition))
            .sorted().toList();
    }

    private StreamsGroupShell() {
    }
}
