"""A streams group as a prediction starts from it, and the command's text and JSON of what comes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from kstreams_assign.assign import StreamsMember, SubtopologyTasks
from kstreams_assign.errors import ConfigError, NotAStreamsGroup
from kstreams_assign.insight.streams_what_if import PlayedChange
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_state import HEARTBEAT_INTERVAL, STANDBYS, playable, process_called
from kstreams_assign.observe.streams_what_if import StreamsChange
from tests.observe.test_streams_reasons import ALL, AT_REST, LOG, member, snapshot, tasks

TWO = snapshot(
    member("b", tasks("1_0", "1_2"), tasks("1_0", "1_2", standby=("1_1",))),
    member("a", tasks("0_0", "0_1", "1_1"), tasks("0_0", "0_1", "1_1")),
    ends=dict.fromkeys(LOG, 50_010),
)


def of(*texts: str) -> frozenset[TaskId]:
    return frozenset(map(TaskId.parse, texts))


def test_it_has_the_target_in_the_brokers_order_and_what_a_restore_reads() -> None:
    group = playable(TWO)
    assert group.state.group.members == (
        StreamsMember("b-id", "process-b", of("1_0", "1_2"), of("1_1")),
        StreamsMember("a-id", "process-a", of("0_0", "0_1", "1_1")),
    )
    assert group.state.group.subtopologies == {
        0: SubtopologyTasks(2, is_stateful=False),
        1: SubtopologyTasks(3, is_stateful=True),
    }
    assert group.state.restore_offsets == dict.fromkeys(of("1_0", "1_1", "1_2"), 50_000)


def test_settings_are_the_brokers_and_assumed_only_if_it_does_not_tell() -> None:
    with_settings = playable(replace(TWO, settings={STANDBYS: "2", HEARTBEAT_INTERVAL: "700"}))
    assert (with_settings.state.group.num_standby_replicas, with_settings.state.heartbeat_interval_ms) == (2, 700)
    assert with_settings.assumed == {}
    without = playable(TWO)
    assert (without.state.group.num_standby_replicas, without.state.heartbeat_interval_ms) == (1, 5_000)
    assert without.assumed.keys() == {STANDBYS, HEARTBEAT_INTERVAL}


def test_a_changelog_of_unknown_size_counts_as_nothing_and_is_named() -> None:
    group = playable(snapshot(member("a", tasks(*ALL), tasks(*ALL)), ends={LOG[0]: 100}))
    assert sorted(group.state.restore_offsets.values()) == [0, 0, 90]
    assert "of 2 tasks the changelog's size is not known" in group.assumed["state"]


def test_a_source_topic_that_does_not_exist_is_named() -> None:
    counts = {topic: count for topic, count in TWO.partition_counts.items() if topic != "orders"}
    group = playable(replace(TWO, partition_counts=counts))
    assert group.assumed["topics"].startswith("source topics do not exist: orders; ")
    assert "topics" not in playable(TWO).assumed


def test_tasks_of_a_subtopology_that_the_topology_lacks_are_left_out_and_named() -> None:
    """The target is of the topology before, until the broker assigns again."""
    held = tasks(*ALL, "2_0", "10_0", standby=("3_0",))
    group = playable(snapshot(member("a", held, held)))
    (of_a,) = group.state.group.members
    assert (of_a.active, of_a.standby) == (of(*ALL), of())
    text = "it lacks subtopologies that the target assignment has: 2, 3, 10; their tasks are left out"
    assert group.assumed["topology"] == text
    assert f"topology: {text}" in shown(PlayedChange(TWO, group, StreamsChange(add=1), None))
    assert "topology" not in playable(TWO).assumed


def test_ids_that_are_no_numbers_keep_their_names() -> None:
    topology = AT_REST.group.topology
    assert topology is not None
    assert topology.subtopologies is not None
    named = tuple(
        replace(sub, subtopology_id=name) for sub, name in zip(topology.subtopologies, ("map", "add"), strict=True)
    )
    held = tasks("map_0", "map_1", "add_0", "add_1", "add_2")
    group = playable(snapshot(member("a", held, held), topology=replace(topology, subtopologies=named)))
    assert group.name(TaskId(0, 1)) == "add_1"
    assert group.name(TaskId(1, 0)) == "map_0"


def test_a_group_without_members_or_topics_has_nothing_to_play() -> None:
    with pytest.raises(NotAStreamsGroup, match="group app has no members"):
        playable(snapshot())
    with pytest.raises(NotAStreamsGroup, match="group app has no tasks: no source topic"):
        playable(snapshot(member("a", tasks(), tasks()), counts={}))


def test_a_process_has_several_names_and_a_wrong_one_lists_them() -> None:
    for word in ("process-a", "a-id", "a"):
        assert process_called(TWO, word) == "process-a"
    with pytest.raises(ConfigError, match="2 processes are called 'host:7070' in group app"):
        process_called(TWO, "host:7070")
    with pytest.raises(ConfigError, match=r"no process is called 'x' in group app; there are process-a \(a, a-id"):
        process_called(TWO, "x")


def shown(played: PlayedChange) -> str:
    console = Console(width=140)
    with console.capture() as captured:
        console.print(played.picture())
    return captured.get()


def test_what_moves_is_shown_with_its_silence_and_the_classic_group_beside_it() -> None:
    change = StreamsChange(remove=("process-b",))
    played = PlayedChange(TWO, playable(TWO), change, 10_000)
    facts = played.document()
    assert facts["change"] == "remove process-"
    assert facts["owner_changes"] == 2
    assert {(move["task"], move["from"], move["to"], move["offsets"]) for move in facts["moves"]} == {
        ("1_0", "process-b", "process-a", 50_000),
        ("1_2", "process-b", "process-a", 50_000),
    }
    assert facts["silence_ms_max"] == 10_000 + 5_000
    assert facts["classic"]["cold"] == 2
    text = shown(played)
    assert "1_0 from process- to process-: 50,000 offsets to read, silent for 5.0 s to 15.0 s" in text
    assert "classic: least_movement" in text


def test_a_process_that_joins_has_no_name_and_nothing_is_claimed_without_a_rate() -> None:
    played = PlayedChange(TWO, playable(TWO), StreamsChange(add=1), None)
    facts = played.document()
    assert [(move["task"], move["to"], move["silence_ms"]) for move in facts["moves"]] == [("1_1", None, None)]
    assert (facts["cold"], facts["silence_ms_max"]) == (1, None)
    assert "not known, so the silence is not either" in facts["assumed"]["restore rate"]
    assert "to a new process" in shown(played)


def test_a_change_of_nothing_says_so() -> None:
    text = shown(PlayedChange(AT_REST, playable(AT_REST), StreamsChange(), None))
    assert "nothing changes" in text
    assert "moves:" not in text
