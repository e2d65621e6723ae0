"""A group that balances by load, as an observer sees it, and what a change would do to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.assign import AssignConfig
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId
from kstreams_assign.observe import what_if
from kstreams_assign.observe.changes import Alternative
from kstreams_assign.observe.describe import describe
from kstreams_assign.observe.document import document
from kstreams_assign.observe.forms import trailer_form
from kstreams_assign.observe.group_state import state_of_group
from kstreams_assign.observe.reasons import reasons
from kstreams_assign.observe.settings import read_settings
from kstreams_assign.observe.what_if import predict
from tests.group.little_group import shape
from tests.observe.seen_group import SeenGroup

HEAVY = {TaskId(0, 0): 12_000, **{TaskId(0, partition): 1_000 for partition in range(1, 6)}}


def weighing(loads=HEAVY, balance_by="input_rate") -> SeenGroup:
    config = AssignConfig(acceptable_recovery_lag=100, balance_by=balance_by)
    group = SeenGroup(shape(), {"orders": 6, "clicks": 0}, config, "least_movement")
    for number in (1, 2):
        member = group.add(number)
        member.balance_by, member.loads = balance_by, dict(loads)
    group.settle()
    group.settle()
    return group


def observed(group: SeenGroup, **given):
    return group.observed(acceptable_recovery_lag=100, **given)


def test_it_counts_as_balanced_by_its_loads_although_numbers_of_tasks_differ():
    about = describe(observed(weighing()))
    assert about.balanced
    assert sorted(about.loads.values()) == [5_000, 12_000]
    (said,) = [text for text in reasons(about) if "balanced" in text]
    assert said.startswith("balanced by input_rate: no task whose move would even out two processes enough")
    assert "(records a minute: 12,000 on 00000000-" in said
    facts = document(about)
    assert facts["balanced"] is True
    assert sorted((process["load"], len(process["active"])) for process in facts["processes"]) == [
        (5_000, 5),
        (12_000, 1),
    ]


def test_a_group_in_a_rebalance_is_not_balanced_by_its_loads_either():
    seen = observed(weighing())
    decoded = replace(seen.decoded, snapshot=replace(seen.decoded.snapshot, state="PreparingRebalance"))
    about = describe(replace(seen, decoded=decoded))
    assert not about.balanced
    assert any(text.startswith("not balanced by input_rate: a rebalance has not ended (") for text in reasons(about))


def test_an_imbalance_is_described_with_what_the_next_rebalance_moves():
    group = weighing(dict.fromkeys(HEAVY, 1_000))
    for member in group.members.values():
        member.loads = dict(HEAVY)
    group.rebalance()
    about = describe(observed(group))
    assert not about.balanced
    assert any("not balanced by input_rate: a move would even out two processes" in text for text in reasons(about))
    assert {move.task.partition for move in about.next_moves} <= {1, 2, 3, 4, 5}
    assert about.next_moves


def test_a_group_by_number_has_no_loads():
    about = describe(observed(weighing(balance_by="tasks")))
    assert about.loads == {}
    assert {process["load"] for process in document(about)["processes"]} == {None}
    assert "balanced: tasks per thread differ by one at most" in "\n".join(reasons(about))


def test_the_setting_is_read_from_the_members_and_is_no_assumption():
    group = weighing()
    assert (observed(group).config.balance_by, "balance_by" in observed(group).assumed) == ("input_rate", False)
    next(iter(group.members.values())).balance_by = "state_size"
    group.rebalance()
    assert observed(group).config.balance_by == "tasks"
    assert observed(group).assumed["balance_by"] == "tasks, the default"


def test_decoded_trailers_show_loads():
    group = weighing()
    group.rebalance()  # in the one before, tasks were on their way
    loads = {str(task): load for task, load in sorted(HEAVY.items())}
    assert trailer_form(group.decoded().trailer)["loads"] == loads
    members = [trailer_form(member.report.trailer) for member in group.decoded().members.values()]
    assert {member["balance_by"] for member in members} == {"input_rate"}
    assert {**members[0]["loads"], **members[1]["loads"]} == loads


def test_a_prediction_balances_by_the_reported_loads():
    state = state_of_group(observed(weighing()))
    assert "as members reported them" in state.assumed["loads"]
    assert predict(state, Alternative()).balanced
    outcome = predict(state, Alternative(add=1))
    assert (outcome.owner_changes, outcome.warnings, outcome.balanced) == (2, (), True)
    last = outcome.generations[-1].decision
    assert sorted(len(placed.active) for placed in last.placements.values()) == [1, 2, 3]
    by_number = predict(state, Alternative(settings={"balance_by": "tasks"}))
    assert (by_number.owner_changes, by_number.balanced) == (2, True)


@pytest.mark.parametrize(
    ("change", "balanced"),
    [
        (Alternative(), True),
        (Alternative(settings={"balance_by": "tasks"}), False),
        (Alternative(assignor="high_availability"), False),
    ],
)
def test_a_prediction_is_judged_by_loads_only_where_the_last_decision_uses_them(
    change: Alternative, balanced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rebalance is simulated, so the tasks are as the loads placed them: one process has 1, the other 5."""
    monkeypatch.setattr(what_if, "_first_cause", lambda *_: None)
    assert predict(state_of_group(observed(weighing())), change).balanced is balanced


def test_a_group_that_its_loads_leave_unbalanced_is_not_predicted_to_be_balanced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(what_if, "_first_cause", lambda *_: None)
    group = weighing(dict.fromkeys(HEAVY, 1_000))
    for member in group.members.values():
        member.loads = dict(HEAVY)
    group.rebalance()
    assert not predict(state_of_group(observed(group)), Alternative()).balanced
    by_number = Alternative(settings={"balance_by": "tasks"})
    assert predict(state_of_group(observed(group)), by_number).balanced


def test_a_setting_on_the_command_line_is_checked():
    assert read_settings(["balance.by=state_size"]) == {"balance_by": "state_size"}
    with pytest.raises(ConfigError, match="must be one of tasks, input_rate, state_size"):
        read_settings(["balance_by=weight"])
