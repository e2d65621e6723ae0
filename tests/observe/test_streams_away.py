"""A static member of a streams group that has closed and comes back: its tasks run nowhere meanwhile."""

from __future__ import annotations

import pytest

from kstreams_assign.insight.streams_what_if import PlayedChange
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_leave import leave_outlook
from kstreams_assign.observe.streams_reasons import streams_document, streams_reasons
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.observe.streams_state import playable, process_called
from kstreams_assign.observe.streams_what_if import StreamsChange
from tests.observe.test_streams_reasons import LOG, member, snapshot, tasks
from tests.observe.test_streams_reasons import shown as inspected
from tests.observe.test_streams_state import shown

AWAY, HERE = "9d0f59e3-away", "75cc8825-here"
NOT_DESCRIBED = "no member is described with them, but i2 (75cc8825) may still be giving them up"


def group(
    *,
    held: tuple[str, ...] = ("0_0", "1_2"),
    to_come: tuple[str, ...] = (),
    elsewhere: tuple[str, ...] = ("0_1", "1_0", "1_1"),
    target_elsewhere: tuple[str, ...] | None = None,
    epoch: int = -2,
    here_epoch: int = 7,
) -> StreamsSnapshot:
    """Two processes; the static member i1 of the first is away."""
    return snapshot(
        member(
            "python",
            tasks(*held),
            tasks(*held, *to_come, standby=("1_0",)),
            process_id=AWAY,
            instance_id="i1",
            member_epoch=epoch,
        ),
        member(
            "python",
            tasks(*elsewhere),
            tasks(*(target_elsewhere or elsewhere)),
            process_id=HERE,
            member_id="here",
            instance_id="i2",
            member_epoch=here_epoch,
        ),
        ends=dict.fromkeys(LOG, 1_010),
    )


def of_away(seen: StreamsSnapshot) -> list[str]:
    return [sentence for sentence in streams_reasons(seen) if "9d0f59e3" in sentence]


def test_one_sentence_names_a_member_that_is_away_and_the_tasks_that_run_nowhere() -> None:
    seen = group()
    assert of_away(seen) == [
        "i1 (9d0f59e3) is away and comes back: 0_0, 1_2 run nowhere until it does, or its session ends"
    ]
    assert streams_document(seen)["restore_if_lost"] == {HERE: ["1_0", "1_1"], AWAY: []}
    text = inspected(seen)
    assert "9d0f59e3 epoch -2, away" in text
    assert "instance i1" in text


def test_a_task_that_waits_for_a_member_that_is_away_runs_nowhere_either() -> None:
    assert of_away(group(held=(), to_come=("0_1",), elsewhere=("1_0", "1_1"))) == [
        "i1 (9d0f59e3) is away and comes back: 0_1 runs nowhere until it does, or its session ends"
    ]


@pytest.mark.parametrize(
    ("seen", "waits"),
    [
        (
            group(to_come=("0_1",), target_elsewhere=("1_0", "1_1")),
            "i1 (9d0f59e3) waits for 0_1, which i2 (75cc8825) has",
        ),
        (
            group(to_come=("0_1",), elsewhere=("1_0", "1_1"), here_epoch=6),
            f"i1 (9d0f59e3) waits for 0_1: {NOT_DESCRIBED}",
        ),
    ],
)
def test_a_task_that_another_member_may_still_run_is_not_called_silent(seen: StreamsSnapshot, waits: str) -> None:
    assert of_away(seen) == [
        "i1 (9d0f59e3) is away and comes back: 0_0, 1_2 run nowhere until it does, or its session ends",
        waits,
    ]


def test_a_member_that_is_away_without_tasks_is_named_too() -> None:
    assert of_away(group(held=())) == ["i1 (9d0f59e3) is away, and no active task waits for it"]


def test_a_standby_of_a_process_that_is_away_saves_nothing() -> None:
    with_standby = snapshot(
        member("a", tasks("0_0", standby=("1_0",)), tasks("0_0", standby=("1_0",)), process_id=AWAY, member_epoch=-2),
        member("b", tasks("1_0"), tasks("1_0"), process_id=HERE),
    )
    assert streams_document(with_standby)["restore_if_lost"] == {HERE: ["1_0"], AWAY: []}


def test_what_moves_from_a_process_that_is_away_is_no_hand_over() -> None:
    seen = group(held=("0_0", "1_1", "1_2"), elsewhere=("0_1", "1_0"))
    played = PlayedChange(seen, playable(seen), StreamsChange(add=1), 10_000)
    (move,) = played.document()["moves"]
    assert (move["task"], move["from"], move["away"], move["silence_ms"]) == ("1_2", AWAY, AWAY, None)
    assert played.document()["warm_join"] == {"cold": 1, "silence_ms_max": None}
    text = " ".join(shown(played).split())
    assert "a new process: 1,000 offsets to read; runs nowhere until 9d0f59e3 is back, or its session ends" in text
    assert "away: i1 (9d0f59e3): closed, and to come back" in text


def test_what_moves_to_a_process_that_is_away_runs_nowhere_until_it_is_back() -> None:
    seen = snapshot(*group().group.members, member("c", tasks(), tasks()))
    leaves = StreamsChange(remove=(HERE,))
    moves = PlayedChange(seen, playable(seen), leaves, 10_000).document()["moves"]
    assert {move["to"]: (move["away"], move["silence_ms"] is None) for move in moves} == {
        AWAY: (AWAY, True),
        "process-c": (None, False),
    }


def test_a_group_whose_members_all_run_has_nothing_away() -> None:
    seen = group(epoch=7)
    assert not any("is away" in sentence for sentence in streams_reasons(seen))
    played = PlayedChange(seen, playable(seen), StreamsChange(remove=(HERE,)), 10_000)
    assert {move["away"] for move in played.document()["moves"]} == {None}
    assert "away" not in playable(seen).assumed


def test_a_process_is_called_by_its_instance_id_too() -> None:
    assert process_called(group(), "i2") == HERE


def test_a_drain_learns_which_members_with_new_tasks_are_away() -> None:
    outlook, _ = leave_outlook(group(), "here")
    assert outlook.state == {"python-id": frozenset({TaskId(1, 0), TaskId(1, 1)})}
    assert outlook.away == {"python-id": "i1"}
    assert leave_outlook(group(epoch=7), "here")[0].away == {}


def test_a_drain_waits_for_a_member_that_is_away_for_tasks_without_state_too() -> None:
    outlook, _ = leave_outlook(group(held=("0_0", "1_0", "1_1", "1_2"), elsewhere=("0_1",)), "here")
    assert (outlook.state, outlook.away) == ({}, {"python-id": "i1"})


def test_a_member_that_is_away_and_gets_nothing_is_not_waited_for() -> None:
    seen = snapshot(
        *group(held=("0_0", "1_1", "1_2"), elsewhere=("0_1",)).group.members,
        member("c", tasks("1_0"), tasks("1_0")),
        member("d", tasks(), tasks()),
    )
    outlook, _ = leave_outlook(seen, "c-id")
    assert (outlook.state.keys() & {"python-id"}, outlook.away) == (set(), {})
