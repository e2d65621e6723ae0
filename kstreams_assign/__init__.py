"""Python members and leaders of Kafka Streams groups: the protocol's bytes, KIP-441's assignment, a sidecar."""
