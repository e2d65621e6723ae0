"""A streams group from its description: what its broker waits for, as sentences and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console

from kstreams_assign.insight.show_streams import show_streams
from kstreams_assign.model import TopicPartition
from kstreams_assign.observe.streams_reasons import missing_topics, streams_document, streams_reasons
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot, changelog_partitions, topics_of
from kstreams_assign.wire import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedTopology,
    Endpoint,
    MemberTasks,
    StreamsSubtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
)

TOPOLOGY = DescribedTopology(
    2,
    (
        StreamsSubtopology("0", ("orders",), repartition_sink_topics=("app-by-key-repartition",)),
        StreamsSubtopology(
            "1",
            (),
            repartition_source_topics=(TopicInfo("app-by-key-repartition"),),
            state_changelog_topics=(TopicInfo("app-totals-changelog"),),
        ),
    ),
)
COUNTS = {"orders": 2, "app-by-key-repartition": 3, "app-totals-changelog": 3}
LOG = [TopicPartition("app-totals-changelog", number) for number in range(3)]


def tasks(*active: str, standby: tuple[str, ...] = ()) -> MemberTasks:
    return MemberTasks(rows(active), rows(standby))


def rows(names) -> tuple[TaskIds, ...]:
    by_id: dict[str, list[int]] = {}
    for name in names:
        subtopology, _, partition = name.partition("_")
        by_id.setdefault(subtopology, []).append(int(partition))
    return tuple(TaskIds(subtopology, tuple(partitions)) for subtopology, partitions in by_id.items())


def member(name: str, owned: MemberTasks, target: MemberTasks, **fields) -> DescribedStreamsMember:
    usual = DescribedStreamsMember(
        member_id=f"{name}-id",
        member_epoch=7,
        instance_id=None,
        rack_id=None,
        client_id=name,
        client_host="/10.0.0.1",
        topology_epoch=2,
        process_id=f"process-{name}",
        user_endpoint=Endpoint("host", 7070),
        client_tags={"zone": "a"},
        task_offsets=(),
        task_end_offsets=(),
        assignment=owned,
        target_assignment=target,
        is_classic=False,
    )
    return replace(usual, **fields)


def snapshot(*members: DescribedStreamsMember, counts=COUNTS, ends=None, **fields) -> StreamsSnapshot:
    usual = DescribedStreamsGroup(0, None, "app", "Stable", 7, 7, TOPOLOGY, members)
    known = dict.fromkeys(LOG, 100) if ends is None else ends
    return StreamsSnapshot(replace(usual, **fields), 1_000, counts, known, dict.fromkeys(LOG, 10))


ALL = ("0_0", "0_1", "1_0", "1_1", "1_2")
AT_REST = snapshot(member("a", tasks(*ALL), tasks(*ALL)))


def test_a_group_at_rest_names_only_what_a_loss_costs():
    (sentence,) = streams_reasons(AT_REST)
    assert sentence.startswith("if process process- is lost, 1_0, 1_1, 1_2 are silent until 270 offsets are read")


def test_a_member_that_has_to_give_up_and_one_that_waits_are_named():
    moving = snapshot(
        member("a", tasks(*ALL), tasks("0_0", "1_0", "1_2")),
        member("b", tasks(), tasks("0_1", "1_1", standby=("1_0",)), member_epoch=8),
        group_epoch=8,
        assignment_epoch=8,
        group_state="Reconciling",
    )
    says = streams_reasons(moving)
    assert "a (process-) still has to give up active 0_1, 1_1: the broker waits for a heartbeat without them" in says
    assert "b (process-) waits for 0_1, 1_1, which a (process-) has" in says
    assert "b (process-) gets standby 1_0 with its next heartbeat" in says
    facts = streams_document(moving)
    a, b = (process["members"][0] for process in facts["processes"])
    assert (a["to_revoke"]["active"], b["awaited"]["active"]) == (["0_1", "1_1"], ["0_1", "1_1"])
    assert (a["target"]["active"], b["target"]["standby"]) == (["0_0", "1_0", "1_2"], ["1_0"])
    assert facts["next_moves"] == [{"task": task, "from": "process-a", "to": "process-b"} for task in ("0_1", "1_1")]


def test_a_member_that_may_be_giving_up_tasks_that_are_not_described_is_named():
    """After the first heartbeat under a new target the description of a slow owner has only what it keeps."""
    kept = tasks("0_0", "1_0", "1_2")
    moving = snapshot(
        member("a", kept, kept),
        member("b", tasks(), tasks("0_1"), member_epoch=8),
        member("c", tasks(), tasks("1_1")),
        member("restarts", tasks(), tasks(), member_epoch=-2),
        group_epoch=8,
        assignment_epoch=8,
        group_state="Reconciling",
    )
    says = streams_reasons(moving)
    not_described = "no member is described with them, but"
    assert f"b (process-) waits for 0_1: {not_described} a (process-), c (process-) may still be giving them up" in says
    assert f"c (process-) waits for 1_1: {not_described} a (process-) may still be giving them up" in says
    or_revokes = "of epoch 8 with its next heartbeat, or it is still giving up tasks that the description leaves out"
    assert f"a (process-) is at epoch 7: it has its tasks, and learns {or_revokes}" in says
    assert f"c (process-) is at epoch 7: it learns {or_revokes}" in says
    assert not [sentence for sentence in says if "epoch -2" in sentence or "no member has them" in sentence]
    facts = streams_document(moving)
    assert [move["from"] for move in facts["next_moves"]] == [None, None]
    assert "tasks that a member is giving up" in facts["unknown"]


def test_a_task_that_nobody_has_comes_with_the_next_heartbeat():
    waiting = snapshot(member("a", tasks("0_0"), tasks(*ALL)))
    gets = "a (process-) gets 0_1, 1_0, 1_1, 1_2 with its next heartbeat: no member has them"
    assert gets in streams_reasons(waiting)


def test_a_standby_elsewhere_means_that_nothing_is_restored():
    held = snapshot(
        member("a", tasks("0_0", "0_1", "1_0", "1_1"), tasks("0_0", "0_1", "1_0", "1_1")),
        member("b", tasks("1_2", standby=("1_0", "1_1")), tasks("1_2", standby=("1_0", "1_1"))),
    )
    assert streams_document(held)["restore_if_lost"] == {"process-a": [], "process-b": ["1_2"]}


def test_a_standby_in_the_same_process_is_lost_with_it():
    pair = snapshot(
        member("a", tasks("1_0"), tasks("1_0"), process_id="one"),
        member("b", tasks(standby=("1_0",)), tasks(standby=("1_0",)), process_id="one"),
    )
    assert streams_document(pair)["restore_if_lost"] == {"one": ["1_0"]}


@pytest.mark.parametrize(
    ("absent", "sentence"),
    [
        ("orders", "source topic orders does not exist: create it"),
        (
            "app-totals-changelog",
            "internal topic app-totals-changelog does not exist: the broker creates it, if it has its source topics",
        ),
    ],
)
def test_missing_topics_are_found_by_comparing_with_the_cluster(absent, sentence):
    counts = {name: count for name, count in COUNTS.items() if name != absent}
    seen = snapshot(counts=counts, group_state="NotReady")
    assert sentence in streams_reasons(seen)
    assert "the broker assigns no tasks until the topics fit the topology" in streams_reasons(seen)
    assert [absent] in missing_topics(seen).values()


def test_a_changelog_with_too_few_partitions_is_named():
    seen = snapshot(counts={**COUNTS, "app-totals-changelog": 2})
    assert "changelog app-totals-changelog has 2 partitions, but its subtopology has 3 tasks" in streams_reasons(seen)


def test_topics_that_could_not_be_listed_are_not_called_missing():
    blind = replace(snapshot(counts={}), gaps={"topics": "no answer"})
    assert not [sentence for sentence in streams_reasons(blind) if "does not exist" in sentence]
    facts = streams_document(blind)
    assert (facts["missing_topics"], facts["assumed"]) == (None, {"topics": "no answer"})


def test_epochs_topologies_and_classic_members_are_told_apart():
    seen = snapshot(
        member("a", tasks(*ALL), tasks(*ALL), member_epoch=6),
        member("b", tasks(), tasks(), topology_epoch=1, is_classic=True),
        group_epoch=9,
    )
    says = " ".join(streams_reasons(seen))
    assert "the broker has yet to compute the assignment of epoch 9: the target is of epoch 7" in says
    assert "a (process-) is at epoch 6: it has its tasks, and learns of epoch 7 with its next heartbeat" in says
    assert "b (process-) runs topology 1 and the group is at 2" in says
    assert "b (process-) uses the classic protocol" in says


def test_an_empty_group_says_so_and_a_new_one_has_no_topology():
    assert streams_reasons(snapshot(group_state="Empty")) == ["the group has no members: no process runs its tasks"]
    assert "no member has brought a topology yet" in streams_reasons(snapshot(topology=None, group_state="NotReady"))


def test_lags_are_null_until_a_member_reports_positions():
    assert streams_document(AT_REST)["processes"][0]["lags"] == {"1_0": None, "1_1": None, "1_2": None}
    assert "lags" in streams_document(AT_REST)["unknown"]
    reporting = snapshot(
        member(
            "a",
            tasks(*ALL),
            tasks(*ALL),
            task_offsets=(TaskOffset("1", 0, 60), TaskOffset("1", 1, 5)),
            task_end_offsets=(TaskOffset("1", 0, 100),),
        )
    )
    facts = streams_document(reporting)
    assert facts["processes"][0]["lags"] == {"1_0": 40, "1_1": None, "1_2": None}
    assert "lags" not in facts["unknown"]


def test_sizes_of_changelogs_are_null_where_an_end_is_not_known():
    assert streams_document(AT_REST)["changelog_offsets"] == {"1_0": 90, "1_1": 90, "1_2": 90}
    blind = snapshot(member("a", tasks(*ALL), tasks(*ALL)), ends={LOG[0]: 100})
    assert streams_document(blind)["changelog_offsets"] == {"1_0": 90, "1_1": None, "1_2": None}
    assert "an unknown number" in " ".join(streams_reasons(blind))


def test_members_are_called_as_the_table_shows_them():
    pair = snapshot(
        member("a", tasks(), tasks("0_0"), process_id="11111111-x"),
        member("a", tasks(), tasks("0_1"), process_id="22222222-y", member_id="static", instance_id="i2"),
        member("app-33333333-z-thread-1", tasks(), tasks("1_0"), process_id="33333333-z"),
    )
    says = " ".join(streams_reasons(pair))
    assert "a (11111111) gets 0_0" in says
    assert "i2 (22222222) gets 0_1" in says
    assert "app-33333333-z-thread-1 gets 1_0" in says
    text = shown(pair)
    for part in ("11111111", "22222222", "33333333", "instance i2"):
        assert part in text


def test_the_topics_to_look_up_are_all_of_the_topology():
    assert topics_of(AT_REST.group) == COUNTS.keys()
    assert changelog_partitions(AT_REST.group, COUNTS) == LOG
    assert changelog_partitions(AT_REST.group, {}) == []


def test_subtopologies_sort_by_number_and_need_not_be_numbers():
    seen = snapshot(member("a", tasks("10_0", "2_1", "2_0"), tasks("named_0")))
    assert streams_document(seen)["processes"][0]["active"] == ["2_0", "2_1", "10_0"]
    assert json.loads(json.dumps(streams_document(seen))) == streams_document(seen)


def shown(seen: StreamsSnapshot, *, assumptions: bool = False) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(show_streams(seen, assumptions=assumptions))
    return " ".join(captured.get().split())


@pytest.mark.parametrize("assumptions", [True, False])
def test_the_picture_has_the_members_the_topology_and_the_sentences(assumptions):
    text = shown(AT_REST, assumptions=assumptions)
    assert "app · streams protocol · Stable · epoch 7 · assignment 7 · topology 2" in text
    assert "0_0, 0_1, 1_0" in text
    assert "subtopology 1 reads app-by-key-repartition; state in app-totals-changelog (270 offsets)" in text
    assert ("the description has epochs" in text) is assumptions


@pytest.mark.parametrize(
    ("counts", "ends", "size"),
    [
        ({"app-totals-changelog": 3}, dict.fromkeys(LOG, 100), "270"),
        ({"app-totals-changelog": 3}, {LOG[0]: 100}, "?"),
        ({}, {}, "?"),
    ],
)
def test_a_changelog_has_its_size_while_the_source_topic_is_missing(counts, ends, size):
    assert f"state in app-totals-changelog ({size} offsets)" in shown(snapshot(counts=counts, ends=ends))
