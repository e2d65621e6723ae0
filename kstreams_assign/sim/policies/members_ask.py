"""KIP-441's rejected alternative: each member asks for a rebalance when one of its warm-ups is caught up."""

from __future__ import annotations

from kstreams_assign.sim.policies.bootstrap import NEVER_MS, AsksForEach
from kstreams_assign.sim.policies.policy import Policy

POLICY = Policy(
    "members_ask",
    "members ask",
    "KIP-441's rejected alternative: each member asks for a rebalance whenever one of its warm-ups is caught up",
    membership=AsksForEach,
    settings={"assignor": "high_availability", "early_probing": False, "probing_rebalance_interval_ms": NEVER_MS},
)
