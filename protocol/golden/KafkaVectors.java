// Vectors of Kafka's own classes, one JSON line each: the kind, the bytes that they write, and what they read from them.
//
//     java -cp 'JARS/*' protocol/golden/KafkaVectors.java > protocol/golden/kafka.jsonl
//
// JARS holds the broker's jars (org.apache.kafka:kafka_2.13:4.3.1 with all it depends on). Bytes inside are hexadecimal.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue.MemberMetadata;
import org.apache.kafka.coordinator.group.generated.LegacyOffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;

public final class KafkaVectors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String ODD = "h\u00f4te-\u4e16-\uD834\uDD1E\u0000";
    private static final byte[] SOME = {0, 1, (byte) 0xff, 'x'};

    public static void main(String[] args) throws Exception {
        for (short version = 0; version <= 3; version++) {
            subscriptions(version);
            assignments(version);
        }
        keys();
        for (short version = 0; version <= 4; version++) {
            commits(version);
            groups(version);
        }
    }

    private static void subscriptions(short version) throws Exception {
        var owned = List.of(new TopicPartition("b", 2), new TopicPartition("a", 7), new TopicPartition("b", 0));
        for (Subscription one : List.of(
                new Subscription(List.of(), null),
                new Subscription(List.of("b", ODD, "a"), ByteBuffer.wrap(SOME), owned, 70_000, Optional.of("rack-1")),
                new Subscription(List.of("t"), ByteBuffer.wrap(new byte[0]), partitions(40), -1, Optional.of(ODD)))) {
            ByteBuffer bytes = ConsumerProtocol.serializeSubscription(one, version);
            Subscription read = ConsumerProtocol.deserializeSubscription(bytes.duplicate());
            line("consumer_subscription", bytes, fields(
                "version", version, "topics", read.topics(), "user_data", hex(read.userData()),
                "owned_partitions", pairs(read.ownedPartitions()),
                "generation_id", read.generationId().orElse(-1), "rack_id", read.rackId().orElse(null)));
        }
    }

    private static void assignments(short version) throws Exception {
        for (Assignment one : List.of(
                new Assignment(List.of()),
                new Assignment(List.of(new TopicPartition("b", 2), new TopicPartition(ODD, 7)), ByteBuffer.wrap(SOME)),
                new Assignment(partitions(40), ByteBuffer.wrap(new byte[0])))) {
            ByteBuffer bytes = ConsumerProtocol.serializeAssignment(one, version);
            Assignment read = ConsumerProtocol.deserializeAssignment(bytes.duplicate());
            line("consumer_assignment", bytes, fields(
                "version", version, "assigned_partitions", pairs(read.partitions()), "user_data", hex(read.userData())));
        }
    }

    private static void keys() throws Exception {
        for (String text : List.of("", "group", ODD)) {
            for (ApiMessage key : List.of(
                    new LegacyOffsetCommitKey().setGroup("g" + text).setTopic(text).setPartition(3),
                    new OffsetCommitKey().setGroup("g" + text).setTopic(text).setPartition(Integer.MAX_VALUE))) {
                line("offsets_key", typed(key), fields("type", key.apiKey(), "group", "g" + text, "topic", text,
                    "partition", key.apiKey() == 0 ? 3 : Integer.MAX_VALUE));
            }
            line("offsets_key", typed(new GroupMetadataKey().setGroup(text)), fields("type", 2, "group", text));
        }
        for (CoordinatorRecordType type : CoordinatorRecordType.values()) {
            if (type.id() > 2) {
                line("offsets_key", typed(type.newRecordKey()), fields("type", type.id()));
            }
        }
    }

    private static void commits(short version) throws Exception {
        var full = new OffsetCommitValue().setOffset(1L << 40).setLeaderEpoch(5).setMetadata(ODD)
            .setCommitTimestamp(1_700_000_000_000L).setExpireTimestamp(1_700_000_000_001L)
            .setTopicId(new Uuid(0x0123456789abcdefL, -2L));
        var strange = new OffsetCommitValue().setMetadata("m".repeat(200));
        if (version >= 4) {
            strange.unknownTaggedFields().add(new RawTaggedField(9, SOME));
            strange.unknownTaggedFields().add(new RawTaggedField(70_000, new byte[0]));
        }
        for (OffsetCommitValue one : List.of(new OffsetCommitValue(), full, strange)) {
            ByteBuffer bytes = MessageUtil.toVersionPrefixedByteBuffer(version, one);
            var read = new OffsetCommitValue(accessor(bytes), version);
            boolean known = !read.topicId().equals(Uuid.ZERO_UUID);
            line("offset_commit", bytes, fields(
                "version", version, "offset", read.offset(), "metadata", read.metadata(),
                "commit_timestamp_ms", read.commitTimestamp(), "expire_timestamp_ms", read.expireTimestamp(),
                "leader_epoch", read.leaderEpoch(),
                "topic_id", known ? longs(read.topicId()) : null, "tagged_fields", tags(read)));
        }
    }

    private static void groups(short version) throws Exception {
        var empty = new GroupMetadataValue().setProtocolType("consumer").setGeneration(7).setProtocol(null).setLeader(null);
        var full = new GroupMetadataValue().setProtocolType("consumer").setGeneration(1 << 20).setProtocol("stream")
            .setLeader("c-1" + ODD).setCurrentStateTimestamp(1_700_000_000_000L)
            .setMembers(IntStream.range(0, 5).mapToObj(KafkaVectors::member).toList());
        var strange = new GroupMetadataValue().setProtocolType("").setProtocol("").setLeader("")
            .setMembers(List.of(new MemberMetadata()));
        if (version >= 4) {
            strange.unknownTaggedFields().add(new RawTaggedField(0, SOME));
            strange.members().get(0).unknownTaggedFields().add(new RawTaggedField(300, SOME));
        }
        for (GroupMetadataValue one : List.of(empty, full, strange)) {
            ByteBuffer bytes = MessageUtil.toVersionPrefixedByteBuffer(version, one);
            var read = new GroupMetadataValue(accessor(bytes), version);
            line("group_metadata", bytes, fields(
                "version", version, "protocol_type", read.protocolType(), "generation", read.generation(),
                "protocol", read.protocol(), "leader", read.leader(),
                "members", read.members().stream().map(KafkaVectors::memberFields).toList(),
                "current_state_timestamp_ms", read.currentStateTimestamp(), "tagged_fields", tags(read)));
        }
    }

    private static MemberMetadata member(int n) {
        return new MemberMetadata().setMemberId("c-" + n + ODD).setGroupInstanceId(n % 2 == 0 ? null : "static-" + n)
            .setClientId("c").setClientHost("/10.0.0." + n).setRebalanceTimeout(300_000 + n).setSessionTimeout(45_000)
            .setSubscription("s".repeat(70 * n).getBytes(StandardCharsets.UTF_8)).setAssignment(SOME);
    }

    private static Map<String, Object> memberFields(MemberMetadata read) {
        return fields(
            "member_id", read.memberId(), "client_id", read.clientId(), "client_host", read.clientHost(),
            "session_timeout_ms", read.sessionTimeout(), "subscription", hex(ByteBuffer.wrap(read.subscription())),
            "assignment", hex(ByteBuffer.wrap(read.assignment())), "rebalance_timeout_ms", read.rebalanceTimeout(),
            "group_instance_id", read.groupInstanceId(), "tagged_fields", tags(read));
    }

    private static List<TopicPartition> partitions(int count) {
        return IntStream.range(0, count).mapToObj(n -> new TopicPartition("topic-" + n / 30, n)).toList();
    }

    private static ByteBuffer typed(ApiMessage key) {
        return ByteBuffer.wrap(MessageUtil.toCoordinatorTypePrefixedBytes(key));
    }

    private static ByteBufferAccessor accessor(ByteBuffer bytes) {
        ByteBuffer message = bytes.duplicate();
        message.getShort();
        return new ByteBufferAccessor(message);
    }

    private static List<List<Object>> pairs(List<TopicPartition> partitions) {
        return partitions.stream().map(one -> List.<Object>of(one.topic(), one.partition())).toList();
    }

    private static List<Long> longs(Uuid id) {
        return List.of(id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    private static Map<String, Object> tags(Message read) {
        Map<String, Object> tags = new LinkedHashMap<>();
        read.unknownTaggedFields().forEach(one -> tags.put("" + one.tag(), HexFormat.of().formatHex(one.data())));
        return tags;
    }

    private static String hex(ByteBuffer bytes) {
        if (bytes == null) {
            return null;
        }
        byte[] raw = new byte[bytes.remaining()];
        bytes.duplicate().get(raw);
        return HexFormat.of().formatHex(raw);
    }

    private static Map<String, Object> fields(Object... namesAndValues) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int at = 0; at < namesAndValues.length; at += 2) {
            fields.put((String) namesAndValues[at], namesAndValues[at + 1]);
        }
        return fields;
    }

    private static void line(String kind, ByteBuffer bytes, Map<String, Object> read) throws Exception {
        System.out.println(JSON.writeValueAsString(fields("kind", kind, "hex", hex(bytes), "java_reads", read)));
    }
}
