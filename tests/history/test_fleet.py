"""The fleet's what-if: what is replayed comes out as it was recorded, and other settings as they would have done."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, replace
from random import Random
from types import SimpleNamespace
from uuid import UUID

import pyarrow as pa
import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.history import fleet as replays
from kstreams_assign.history import writing
from kstreams_assign.history.derive import derive
from kstreams_assign.history.fleet import (
    ReplayJob,
    ReplayProgress,
    alternatives_of,
    as_text,
    ranked,
    watch_stage,
    what_if,
)
from kstreams_assign.history.generate import Fleet
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.records import Kind, key_of
from kstreams_assign.history.replay import STREAMS_GROUP, replay
from kstreams_assign.history.schemas import SCHEMAS
from kstreams_assign.history.tables import joined_tables
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.observe.changes import Alternative
from kstreams_assign.wire import (
    SubscriptionInfo,
    decode_assignment,
    decode_consumer_assignment,
    decode_consumer_subscription,
    decode_subscription,
    encode_consumer_subscription,
    encode_subscription,
)
from tests.history.groups import (
    JAVA,
    OURS,
    P1,
    P2,
    P3,
    TEN_MINUTES,
    RecordedGroup,
    changed,
    columns,
    counted_on,
    derived,
    end_offsets,
    group,
    rows,
)
from tests.history.report_data import write_tables
from tests.history.streams_coordinator import A, B, Coordinator
from tests.history.streams_coordinator import derived as streams_derived
from tests.samples import sample

TABLES = ("rebalances", "members", "task_placements", "end_offsets")
LEAST, HIGH = Alternative(assignor="least_movement"), Alternative(assignor="high_availability")
each_kind = pytest.mark.parametrize(("kind", "same"), [(OURS, LEAST), (JAVA, HIGH)], ids=["ours", "java"])


def scaled(kind, **settings) -> RecordedGroup:
    """One process, then two, then three, then two again, each settled and read to the end."""
    recorded = RecordedGroup(group(kind, partitions=6, **settings), kind)
    recorded.start(P1)
    recorded.settle()
    for process in (P2, P3):
        recorded.played.wait(TEN_MINUTES)
        recorded.start(process)
        recorded.settle()
    recorded.played.wait(TEN_MINUTES)
    recorded.played.stop(P1)
    recorded.settle()
    return recorded


def of_group(tables):
    return {name: rows(tables, name) for name in TABLES}


@each_kind
@pytest.mark.parametrize("settings", [{}, {"num_standby_replicas": 1}, {"max_warmup_replicas": 1}], ids=str)
def test_under_its_own_settings_a_group_does_again_what_it_did(kind, same, settings):
    recorded = scaled(kind, **settings)
    group_row = of_group(derived(recorded.records()))
    warmups = {key: value for key, value in settings.items() if key == "max_warmup_replicas"}
    replayed = replay(group_row, [replace(same, settings=warmups)])
    rebalances = group_row["rebalances"]
    starts = [row["generation"] for row in rebalances if row["cause"] in {"join", "leave"}]
    assert [answer.generation for answer in replayed.answers] == starts
    for answer, following in zip(replayed.answers, [*starts[1:], 1_000], strict=True):
        episode = [row for row in rebalances if answer.generation <= row["generation"] < following]
        assert answer.rebalances == len(episode)
        assert answer.owner_changes == sum(row["owner_changes"] for row in episode)
        assert answer.converged
    assert replayed.continued == len(rebalances) - len(starts) - 1
    assert replayed.left_out == {"nothing is known of what was before": 1}


def test_a_task_withheld_while_a_member_joins_still_counts_as_its_old_owners():
    recorded = RecordedGroup(group(OURS, partitions=6, stateless=False), OURS)
    recorded.start(P1)
    recorded.settle()
    recorded.start(P2)
    recorded.rebalance(TEN_MINUTES)
    while not recorded.played.withheld:
        recorded.rebalance(TEN_MINUTES)
    recorded.start(P3)
    recorded.settle()
    group_row = of_group(derived(recorded.records()))
    *_, joined = [row["generation"] for row in group_row["rebalances"] if row["cause"] == "join"]
    episode = [row["owner_changes"] for row in group_row["rebalances"] if row["generation"] >= joined]
    assert episode[0] == 2
    assert replay(group_row, [LEAST]).answers[-1].owner_changes == sum(episode)


def test_other_settings_are_another_alternative():
    group_row = of_group(derived(scaled(JAVA).records()))
    few, many = replay(group_row, [replace(HIGH, settings={"max_warmup_replicas": n}) for n in (1, 8)]).answers[-2:]
    answers = replay(group_row, [replace(HIGH, settings={"max_warmup_replicas": n}) for n in (1, 8)]).answers
    rounds = [sum(answer.rounds for answer in answers if answer.alternative == n) for n in (0, 1)]
    assert rounds[0] > rounds[1]
    assert few.owner_changes >= few.lower_bound
    assert many.skew <= 1


def test_without_sampled_ends_every_copy_counts_as_caught_up_and_it_is_said():
    recorded = scaled(JAVA)
    (times,) = [[row["time_ms"] for row in recorded.rows("rebalances") if row["cause"] in {"join", "leave"}]]
    ends = end_offsets(times[0], partitions=6)
    group_row = of_group(derived(recorded.records(), ends))
    first, *others = replay(group_row, [HIGH]).answers
    assert (first.ends_sampled, {answer.ends_sampled for answer in others}) == (True, {False})


def test_rebalances_of_streams_groups_are_left_out_with_one_line():
    """A group that was classic, a streams group, and classic again is two histories without what was between."""
    coordinator = Coordinator(Random(1))
    for process in (A, B):
        coordinator.join(process)
        coordinator.settle()
    streams = of_group(streams_derived(coordinator.records))
    first, again = scaled(JAVA).records(), scaled(JAVA).records()
    classic, later = of_group(derived(first)), of_group(derive(None, columns(again, 10_000))[1])
    for row in (row for table in streams.values() for row in table):
        row |= {"offsets_partition": first[0].partition, "offsets_offset": 9_000 + row["generation"]}
    alone = replay(classic, [HIGH])
    both = replay({name: [*classic[name], *streams[name], *later[name]] for name in TABLES}, [HIGH])
    assert [answer[4:] for answer in both.answers] == [answer[4:] for answer in alone.answers] * 2
    assert both.left_out == {"nothing is known of what was before": 2, STREAMS_GROUP: 2}
    assert replay(streams, [HIGH]).left_out == {STREAMS_GROUP: 2}
    answer = ranked([HIGH], ReplayJob((HIGH,)).rows({"group": "app", **streams}))
    assert (answer.groups, answer.replayed, answer.recorded_owner_changes, answer.recorded_rounds) == (1, 0, 0, 0)
    assert "left out: 2 generations: streams groups (KIP-1071): the broker assigns" in as_text(answer)


def before_version_7(records):
    """Return the same records where all members are of Kafka Streams 2.4, and list each task that they ran.

    The played members report nothing of stateless tasks, like Java's from 2.6 on.
    """
    ran: dict[UUID, set[TaskId]] = {}

    def reported(member):
        said = decode_consumer_subscription(member.subscription)
        info = decode_subscription(said.user_data)
        sums = {**info.task_offset_sums, **dict.fromkeys(ran.get(info.process_id, ()), RUNNING_OFFSET_SUM)}
        report = SubscriptionInfo(5, 5, info.process_id, None, sums)
        given = decode_assignment(decode_consumer_assignment(member.assignment).user_data)
        ran[info.process_id] = set(given.active_tasks)
        return replace(
            member, subscription=encode_consumer_subscription(replace(said, user_data=encode_subscription(report)))
        )

    return [
        changed(record, members=reported) if key_of(record.key).kind is Kind.GROUP_METADATA else record
        for record in records
    ]


@pytest.mark.parametrize("settings", [{}, {"num_standby_replicas": 1}], ids=str)
def test_before_version_7_a_task_that_ran_counts_as_stateful_only_where_a_copy_shows_it(settings):
    """Otherwise the stateless tasks have warm-ups and lack standbys."""
    records = scaled(JAVA, **settings).records()
    older = of_group(derived(before_version_7(records)))
    assert {task for row in older["members"] for task, _ in row["offset_sums"] if task.startswith("1_")}
    alternatives = [HIGH, replace(HIGH, settings={"max_warmup_replicas": 1})]
    assert replay(older, alternatives) == replay(of_group(derived(records)), alternatives)


@pytest.mark.parametrize(("partitions", "stateful"), [(0, 0), (4, 4), (3, 0)])
def test_where_no_copy_shows_state_a_changelog_of_as_many_partitions_does(partitions, stateful):
    recorded = RecordedGroup(group(JAVA, partitions=4, stateless=False), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.rebalance()
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance()
    ends = end_offsets(recorded.events[-1].time_ms, partitions=partitions)
    tables = of_group(derived(before_version_7(recorded.records()), ends))
    (answer,) = replay(tables, [HIGH]).answers
    assert answer.without_standby == stateful
    for row in tables["end_offsets"]:  # as it is once the derivation knows whose the changelog is
        row["task"] = f"0_{row['partition']}"
    (answer,) = replay(tables, [HIGH]).answers
    assert answer.without_standby == (4 if partitions else 0)


def after_another_release(*, deleted: bool):
    """The tables of a group alone, and of it behind a group of the same name with more tasks and other processes.

    ``deleted``: the first group was deleted, so the second one counts its generations from one.
    """
    older = RecordedGroup(group(JAVA, partitions=6), JAVA)
    older.start(UUID(int=8), UUID(int=9))
    older.settle()
    newer = RecordedGroup(group(JAVA, partitions=4, stateless=False), JAVA)
    newer.played.now_ms = older.played.now_ms + TEN_MINUTES
    newer.start(P1)
    newer.settle()
    newer.played.wait(TEN_MINUTES)
    newer.start(P2)
    newer.settle()
    before, behind = older.records(), newer.records()
    if deleted:
        before.append(before[-1]._replace(value=None))
    else:
        behind = [counted_on(record, older.played.generation) for record in behind]
    return of_group(derived(newer.records())), of_group(derived([*before, *behind]))


def test_a_group_that_was_deleted_and_created_again_is_two_histories():
    alone, both = after_another_release(deleted=True)
    assert [row["generation"] for row in both["rebalances"] if row["cause"] == "first"] == [1, 1]
    answers = replay(alone, [HIGH, LEAST]).answers
    replayed = replay(both, [HIGH, LEAST])
    assert [answer[3:] for answer in replayed.answers] == [answer[3:] for answer in answers]
    assert len(answers) == 2
    assert replayed.left_out == {"nothing is known of what was before": 2}


def test_tasks_that_the_application_no_longer_has_are_in_no_later_question():
    alone, both = after_another_release(deleted=False)
    assert [row["cause"] for row in both["rebalances"]].count("first") == 1
    answers = replay(alone, [HIGH, LEAST]).answers
    replaced, later = replay(both, [HIGH, LEAST]).answers[:2], replay(both, [HIGH, LEAST]).answers[2:]
    assert [answer[3:] for answer in later] == [answer[3:] for answer in answers]
    assert {answer.skew for answer in replaced} == {0.0}
    assert {answer.without_standby for answer in replaced} == {4}, "the stateful tasks that the group still has"


def lagging(copy_at: int):
    """The heir's copies are at ``copy_at`` as the owner leaves; the ends are 50,000, sampled then."""
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=2, num_standby_replicas=1), JAVA)
    recorded.start(P1, P2)
    recorded.rebalance()
    recorded.rebalance(TEN_MINUTES)
    recorded.start(P3)
    for process in (P1, P2):
        disk = recorded.played.processes[process]
        disk.positions.update({task: copy_at for task in disk.positions if task not in disk.running})
    recorded.rebalance(TEN_MINUTES, offsets_per_s=0)
    group_row = of_group(derived(recorded.records(), end_offsets(recorded.events[-1].time_ms, partitions=2)))
    (answer,) = replay(group_row, [HIGH]).answers
    assert answer.ends_sampled
    return answer


def test_how_far_copies_were_behind_sampled_ends_decides_what_they_are_worth():
    assert lagging(50_000).without_standby < lagging(10).without_standby


def test_a_generation_with_a_member_that_cannot_be_read_is_left_out():
    recorded = scaled(JAVA)
    *before, last = [record for record in recorded.records() if record.key.startswith(b"\0\2")]
    spoilt = changed(last, members=lambda m: replace(m, subscription=b"") if str(P2) in m.client_id else m)
    assert replay(of_group(derived([*before, spoilt])), [HIGH]).left_out["members that cannot be read"] == 1


@pytest.mark.parametrize("table", ["members", "task_placements", "end_offsets"])
def test_a_generation_with_a_task_of_a_negative_number_is_left_out(table):
    """Tables of earlier releases may have one, from damaged bytes."""
    recorded = scaled(JAVA)
    asked = {answer.offsets_offset for answer in replay(of_group(derived(recorded.records())), [HIGH]).answers}
    last_asked = max(recorded.rows("rebalances"), key=lambda row: (row["offsets_offset"] in asked, row["time_ms"]))
    group_row = of_group(derived(recorded.records(), end_offsets(last_asked["time_ms"], partitions=6)))
    row = next(row for row in group_row[table] if row["offsets_offset"] == last_asked["offsets_offset"])
    row |= {"offset_sums": [("0_-1", 5)]} if table == "members" else {"task": "0_-1"}
    replayed = replay(group_row, [HIGH])
    assert replayed.left_out["members that cannot be read"] == 1
    assert {answer.offsets_offset for answer in replayed.answers} == asked - {last_asked["offsets_offset"]}


def test_tasks_that_cannot_be_replayed_are_left_out_with_the_reason():
    group_row = of_group(derived(scaled(JAVA).records()))
    named = [{**row, "task": f"shop__{row['task']}"} for row in group_row["task_placements"]]
    replayed = replay({**group_row, "task_placements": named}, [HIGH])
    assert replayed.answers == []
    assert any("named topologies" in why for why in replayed.left_out)


# --- the settings that are compared, and the ranking ---------------------------------


def test_every_assignor_meets_every_combination_of_settings():
    alternatives = alternatives_of(
        ["max_warmup_replicas=2,8", "num.standby.replicas=1"], ["sticky", "high_availability"]
    )
    assert [(alternative.assignor, dict(alternative.settings)) for alternative in alternatives] == [
        (name, {"max_warmup_replicas": warmups, "num_standby_replicas": 1})
        for name in ("sticky", "high_availability")
        for warmups in (2, 8)
    ]
    assert [alternative.assignor for alternative in alternatives_of([], [])] == ["least_movement", "high_availability"]
    tags = alternatives_of(["rack_aware_assignment_tags=zone,rack"], ["sticky"])
    assert [dict(alternative.settings) for alternative in tags] == [{"rack_aware_assignment_tags": ("zone", "rack")}]


@pytest.mark.parametrize(
    ("settings", "assignors", "said"),
    [
        (["max_warmup_replicas=0"], [], "max_warmup_replicas = 0"),
        (["max_warmup_replica=1"], [], "max_warmup_replica=1"),
        (["assignor=sticky"], [], "--assignor"),
        ([], ["stickiest"], "stickiest"),
    ],
)
def test_a_setting_that_is_none_is_refused_by_name(settings, assignors, said):
    with pytest.raises(ConfigError, match=said):
        alternatives_of(settings, assignors)


@pytest.fixture(scope="module")
def fleet_tables():
    fleet = Fleet(groups=6, members=6, generations=8, seed=3, partitions=1)
    by_key = {}
    for record in fleet.records(0):
        by_key.setdefault(key_of(record.key).group, []).append(record)
    return [derived(records) for records in by_key.values()]


def test_the_ranking_adds_up_what_the_groups_come_to(fleet_tables):
    alternatives = alternatives_of(["max_warmup_replicas=1,8"], [])
    job = ReplayJob(tuple(alternatives))
    every = [{"group": tables["rebalances"]["group"][0], **of_group(tables)} for tables in fleet_tables]
    answer = ranked(alternatives, [row for row in every for row in job.rows(row)])
    assert answer.groups == len(fleet_tables)
    assert answer.replayed > len(fleet_tables)
    assert sum(answer.left_out.values()) + answer.continued + answer.replayed == 8 * len(fleet_tables)
    keys = [(ranked.owner_changes, ranked.rounds, ranked.skew) for ranked in answer.ranking]
    assert keys == sorted(keys)
    assert answer.ranking[0].assignor == "least_movement"
    assert {ranked.lower_bound for ranked in answer.ranking} == {answer.ranking[0].lower_bound}
    assert set(answer.caught_up) == {row["group"] for row in every}
    text = as_text(answer)
    assert "without sampled end offsets" in text
    assert "max_warmup_replicas=8" in text
    assert max(map(len, text.splitlines())) <= 80


def test_spark_comes_to_the_same(fleet_tables, spark, tmp_path):
    alternatives = alternatives_of([], [])
    write_tables(tmp_path, joined_tables(fleet_tables))
    answer = what_if(spark, Layout(tmp_path), alternatives, tasks=2, watch=lambda *_: None)
    every = [{"group": tables["rebalances"]["group"][0], **of_group(tables)} for tables in fleet_tables]
    job = ReplayJob(tuple(alternatives))
    assert asdict(answer) == asdict(ranked(alternatives, [row for row in every for row in job.rows(row)]))


@pytest.mark.parametrize("name", sample(["a[b]", "{a,b}"], 1))
def test_a_folder_whose_name_is_a_pattern_is_replayed(fleet_tables, spark, tmp_path, name):
    write_tables(tmp_path / name, joined_tables(fleet_tables[:1]))
    assert what_if(spark, Layout(tmp_path / name), [HIGH], tasks=1).groups == 1


def test_a_replay_is_watched_by_the_stage_that_has_its_parts(monkeypatch):
    looks = iter(([], [(3, 2), None], [(8, 1)], [(8, 1), (3, 3)], [(8, 6)]))
    now: list[tuple[int, int] | None] = []
    over, heard = threading.Event(), []

    def stages():
        now[:] = next(looks)
        return range(len(now))

    def watch(ended, parts):
        heard.append((ended, parts))
        if ended == 6:
            over.set()

    def stage(number):
        return (
            None if now[number] is None else SimpleNamespace(numTasks=now[number][0], numCompletedTasks=now[number][1])
        )

    tracker = SimpleNamespace(getActiveStageIds=stages, getStageInfo=stage)
    monkeypatch.setattr(replays, "LOOK_EVERY_S", 0.0)
    watch_stage(tracker, 8, watch, over)
    assert heard == [(1, 8), (6, 8)]


def test_a_long_replay_says_how_far_it_is(monkeypatch, capsys):
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    progress = ReplayProgress()
    for now_s, ended in ((9.0, 1), (20.0, 2), (25.0, 3), (30.0, 4)):  # noqa: B007  # the clock
        progress.say(ended, 8)
    assert capsys.readouterr().err.splitlines() == [
        "replayed 2 of 8 parts, about 1 min left",
        "replayed 4 of 8 parts, about 30 s left",
    ]


def test_a_folder_without_tables_is_refused(spark, tmp_path):
    with pytest.raises(ConfigError, match="no table rebalances"):
        what_if(spark, Layout(tmp_path), [HIGH])


def test_a_table_of_another_release_is_refused(fleet_tables, spark, tmp_path, monkeypatch):
    older = pa.schema([field for field in SCHEMAS["rebalances"] if field.name != "cause"])
    monkeypatch.setattr(writing, "SCHEMAS", {**SCHEMAS, "rebalances": older})
    write_tables(tmp_path, fleet_tables[0])
    with pytest.raises(ConfigError, match="rebalances has no column cause"):
        what_if(spark, Layout(tmp_path), [HIGH])
