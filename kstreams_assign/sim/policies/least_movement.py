"""Our default: KIP-441's rules with as few moves as balance allows, and a probe as soon as tasks would move."""

from __future__ import annotations

from kstreams_assign.sim.policies.policy import Policy

POLICY = Policy(
    "least_movement",
    "least_movement",
    "as KIP-441, with the fewest moves that balance allows, and early probing: members report offsets to the leader",
    settings={"assignor": "least_movement", "early_probing": True, "max_warmup_replicas": 2},
    awaits_restarts=True,
)
