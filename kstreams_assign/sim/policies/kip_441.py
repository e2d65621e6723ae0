"""KIP-441 as Kafka 4.3.1 decides: warm-ups, at most ``max_warmup_replicas``, and a probing rebalance at an interval."""

from __future__ import annotations

from kstreams_assign.sim.policies.policy import Policy

INTERVAL_MS = 60_000
"""The shortest that the KIP allows; its default is ten minutes."""

POLICY = Policy(
    "kip_441",
    "KIP-441",
    "high_availability: tasks run where their state is, two warm-ups at a time, a probe each minute",
    settings={
        "assignor": "high_availability",
        "early_probing": False,
        "max_warmup_replicas": 2,
        "probing_rebalance_interval_ms": INTERVAL_MS,
    },
)
