"""The rebalance history on a Spark cluster: how fast, with how much memory, and whether each row is right."""
