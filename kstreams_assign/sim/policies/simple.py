"""The proposal's *Simple*: only moving tasks are revoked, and a second join at once assigns them (later KIP-429)."""

from __future__ import annotations

from kstreams_assign.assign import sticky
from kstreams_assign.sim.policies.policy import Policy, always

POLICY = Policy(
    "simple",
    "Simple",
    "incremental: a moving task is revoked, and a second join at once assigns it to its new owner, which restores it",
    always(sticky),
)
