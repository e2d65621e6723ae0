"""The checker of plans: each decision has the properties of ``assign.check``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kstreams_assign.assign import check
from kstreams_assign.group.leader import DecisionInput
from kstreams_assign.group.values import Decision, JoinedMember
from kstreams_assign.sim.checkers import Checker
from kstreams_assign.sim.reading import read_group

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process


class PlansHold(Checker):
    """Checks the decisions of our assignor, except where a process drains: it keeps tasks until others have them."""

    invariant = "plans have all properties"

    def decided(
        self,
        process: Process,  # noqa: ARG002
        members: Sequence[JoinedMember],
        question: DecisionInput,  # noqa: ARG002
        decision: Decision,
    ) -> None:
        standing = decision.standing
        if standing is None or decision.assignor != "least_movement":
            return
        texts = check(standing.cluster, standing.config, standing.plan)
        if texts and not read_group(members).draining:
            for text in texts:
                self.report_violation(text)
