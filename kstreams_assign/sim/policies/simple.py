"""The proposal's *Simple*: only what moves is revoked, and a second join follows at once to give it out (what KIP-429 became)."""

from __future__ import annotations

from kstreams_assign.assign import sticky
from kstreams_assign.sim.policies.policy import Policy, always

POLICY = Policy(
    "simple",
    "Simple",
    "incremental: a task that moves is revoked, and a second join at once gives it to its new owner, who restores it then",
    always(sticky),
)
