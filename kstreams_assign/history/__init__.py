"""The rebalance history: from records of ``__consumer_offsets`` to tables, a report and a fleet's what-if, on Spark."""
