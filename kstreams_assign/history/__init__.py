"""The rebalance history: from the records of ``__consumer_offsets`` to tables, a report and a fleet's what-if, on Spark."""
