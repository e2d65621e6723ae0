"""Each checker passes a good run, and fails when its own kind of violation is planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.chaos.checks import CHECKS, account, group_resets, violations
from tests.chaos.facts import Commit, Exit, Facts, Generation, Store, Write
from tests.chaos.rows import Entry, Row, write_entry

KEY = b"0-1"
OTHER = b"0-2"


def entry(offset: int, writer: str, generation: int, *ids: int, key: bytes = KEY, partition: int = 0) -> Write:
    return Write(partition, offset, key, write_entry(Entry(writer, generation, ids)))


GOOD = Facts(
    guarantee="exactly_once_v2",
    warmups_max=2,
    acknowledged=frozenset({1, 2, 3, 4}),
    inputs=(1, 2, 3, 4),
    writes=(
        entry(0, "w0.1", 3, 1),
        entry(1, "w0.1", 3, 1, 2),
        entry(2, "w1.1", 4, 1, 2, 3),
        entry(3, "w1.1", 4, 4, key=OTHER),
    ),
    rows=(
        Row(1, 0, 0, 3, "w0.1"),
        Row(2, 0, 1, 3, "w0.1"),
        Row(3, 0, 2, 4, "w1.1"),
        Row(4, 0, 3, 4, "w1.1"),
    ),
    commits=(Commit(0, 2), Commit(1, 0), Commit(0, 2), Commit(0, 4)),
    generations=(
        Generation(3, {"a": (0, 1), "b": ()}, {"b": ("0_0", "0_1")}),
        Generation(4, {"a": (1,), "b": (0,)}),
    ),
    exits=(Exit("w0.1", -9, by_us=True), Exit("w1.1", 0, by_us=False)),
    slept=frozenset(),
    aborted_transactions=0,
    stores=(Store("w2.1", 0, 2, {KEY: write_entry(Entry("w0.1", 3, (1, 2)))}),),
    changelog_ends={0: 5},
)
STORE = GOOD.stores[0]
WITHOUT_2 = (*GOOD.writes[:2], entry(2, "w1.1", 4, 1, 3), GOOD.writes[3])
"""The second writer wrote over what the first had applied."""


def test_all_checkers_pass_a_good_run():
    assert violations(GOOD) == []
    assert violations(replace(GOOD, guarantee="at_least_once")) == []


def _whole(facts: Facts, offset: int) -> Store:
    return Store("w1.1", 0, offset, {write.key: write.value for write in facts.writes})


HARM: dict[str, tuple[Callable[[Facts], Facts], str]] = {
    "an entry whose bytes were damaged": (
        lambda facts: replace(facts, writes=(facts.writes[0]._replace(value=facts.writes[0].value[:-1] + b"\7"),)),
        "entries_are_sound",
    ),
    "an entry cut short": (
        lambda facts: replace(facts, writes=(facts.writes[0]._replace(value=b"short"),)),
        "entries_are_sound",
    ),
    "an input the broker lost": (
        lambda facts: replace(facts, acknowledged=facts.acknowledged | {9}),
        "acknowledged_inputs_are_there",
    ),
    "an input sent twice": (
        lambda facts: replace(facts, inputs=(*facts.inputs, 4)),
        "acknowledged_inputs_are_there",
    ),
    "an input in no entry": (
        lambda facts: replace(facts, writes=facts.writes[:3]),
        "nothing_is_lost",
    ),
    "a key deleted": (
        lambda facts: replace(facts, writes=(*facts.writes, Write(0, 9, KEY, None))),
        "nothing_is_lost",
    ),
    "an input written over": (
        lambda facts: replace(facts, writes=WITHOUT_2),
        "nothing_is_lost",
    ),
    "an input overwritten by a process that slept, under exactly-once": (
        lambda facts: replace(facts, writes=WITHOUT_2, slept=frozenset({"w1.1"})),
        "nothing_is_lost",
    ),
    "an input that was not emitted": (
        lambda facts: replace(facts, rows=facts.rows[1:]),
        "nothing_is_lost",
    ),
    "an id applied twice": (
        lambda facts: replace(facts, writes=(*facts.writes, entry(9, "w1.1", 4, 4, 4, key=OTHER))),
        "nothing_is_applied_twice",
    ),
    "an input emitted twice": (
        lambda facts: replace(facts, rows=(*facts.rows, facts.rows[3])),
        "nothing_is_applied_twice",
    ),
    "an id that was never sent": (
        lambda facts: replace(facts, rows=(*facts.rows, Row(77, 0, 9, 4, "w1.1"))),
        "nothing_is_made_up",
    ),
    "rows of two processes in one generation": (
        lambda facts: replace(facts, rows=(*facts.rows[:3], facts.rows[3]._replace(writer="w0.1"))),
        "each_task_has_a_single_owner",
    ),
    "a row and an entry of two processes in one generation": (
        lambda facts: replace(facts, writes=(*facts.writes, entry(4, "w2.1", 4, 4, key=OTHER))),
        "each_task_has_a_single_owner",
    ),
    "a process started again that works in the generation of the one before": (
        lambda facts: replace(facts, rows=(*facts.rows[:3], facts.rows[3]._replace(writer="w1.2"))),
        "each_task_has_a_single_owner",
    ),
    "a task given to two members": (
        lambda facts: replace(facts, generations=(Generation(5, {"a": (0, 1), "b": (1,)}),)),
        "each_task_has_a_single_owner",
    ),
    "a warm-up too many": (
        lambda facts: replace(facts, generations=(Generation(5, {}, {"a": ("0_0", "0_1"), "b": ("0_2",)}),)),
        "warmups_are_within_the_limit",
    ),
    "a store that lacks a key": (
        lambda facts: replace(facts, stores=(replace(STORE, entries={}),)),
        "stores_are_their_changelogs",
    ),
    "a store with an older value": (
        lambda facts: replace(facts, stores=(replace(STORE, entries={KEY: facts.writes[0].value}),)),
        "stores_are_their_changelogs",
    ),
    "a store with a key too many": (
        lambda facts: replace(facts, stores=(replace(STORE, entries={**STORE.entries, OTHER: facts.writes[3].value}),)),
        "stores_are_their_changelogs",
    ),
    "a store ahead of its changelog": (
        lambda facts: replace(facts, stores=(_whole(facts, offset=9),)),
        "stores_are_their_changelogs",
    ),
    "a damaged store that differs where it can be read": (
        lambda facts: replace(facts, stores=(replace(STORE, entries={}, damage="Corruption", harmed=True),)),
        "stores_are_their_changelogs",
    ),
    "a store that is damaged, but not on purpose": (
        lambda facts: replace(facts, stores=(replace(STORE, damage="Corruption"),)),
        "damage_is_of_our_making",
    ),
    "an offset that goes back": (
        lambda facts: replace(facts, commits=(*facts.commits, Commit(0, 3))),
        "offsets_never_go_back",
    ),
    "a generation that goes back": (
        lambda facts: replace(facts, generations=facts.generations[::-1]),
        "generations_go_up",
    ),
    "a worker that ended by itself": (
        lambda facts: replace(facts, exits=(Exit("w0.1", 1, by_us=False, said="StateError"),)),
        "workers_end_as_they_should",
    ),
    "a worker that ended for want of a broker that was there": (
        lambda facts: replace(
            facts, exits=(Exit("w0.1", 1, by_us=False, said="BrokerUnavailable", without_broker_s=5),)
        ),
        "workers_end_as_they_should",
    ),
    "a worker that crashed": (
        lambda facts: replace(facts, exits=(Exit("w0.1", -11, by_us=False),)),
        "workers_end_as_they_should",
    ),
    "a group without rest": (
        lambda facts: replace(facts, restless=("partition 0: committed 3 of 4",)),
        "the_group_comes_to_rest",
    ),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_checker_finds(harm):
    plant, name = HARM[harm]
    assert [text.partition(":")[0] for text in violations(plant(GOOD))] == [name]


def test_every_checker_is_shown_to_be_able_to_fail():
    assert {name for _, name in HARM.values()} == {check.__name__ for check in CHECKS}


def test_a_worker_that_starts_may_give_up_where_there_is_no_broker():
    given_up = Exit("w0.1", 1, by_us=False, said="BrokerUnavailable", without_broker_s=25)
    assert violations(replace(GOOD, exits=(given_up,))) == []


def test_a_store_at_the_end_may_have_passed_a_transactions_marker():
    assert violations(replace(GOOD, stores=(_whole(GOOD, offset=5),))) == []


def test_keys_hidden_by_planted_damage_are_no_difference():
    hidden = replace(STORE, entries={}, damage="Corruption", unread=frozenset({KEY}), harmed=True)
    assert violations(replace(GOOD, stores=(hidden,))) == []


def test_under_at_least_once_stores_are_not_checked_after_a_sleep():
    facts = replace(GOOD, guarantee="at_least_once", stores=(replace(STORE, entries={}),), slept=frozenset({"w0.1"}))
    assert violations(facts) == []


def test_under_at_least_once_repeats_are_counted_and_no_violation():
    twice = (*GOOD.writes, entry(9, "w1.1", 4, 4, 4, key=OTHER))
    facts = replace(GOOD, guarantee="at_least_once", writes=twice)
    assert violations(facts) == []
    assert account(facts).duplicated == (4,)


def test_under_at_least_once_only_a_sleeper_may_overwrite_its_successor():
    facts = replace(GOOD, guarantee="at_least_once", writes=WITHOUT_2)
    assert account(facts).lost == (2,)
    slept = replace(facts, slept=frozenset({"w1.1"}))
    assert violations(slept) == []
    assert (account(slept).lost, account(slept).overwritten) == ((), (2,))
    assert account(replace(facts, slept=frozenset({"w0.1"}))).lost == (2,), "it was not that one who wrote over it"


def test_an_overwritten_id_that_is_applied_again_is_not_counted():
    facts = replace(GOOD, guarantee="at_least_once", writes=(*WITHOUT_2, entry(4, "w1.1", 4, 1, 3, 2)))
    assert account(facts).overwritten == account(facts).lost == ()


def test_generations_start_again_after_the_coordinator_forgot_the_group():
    """The same numbers, other processes; two owners in a new generation are still a violation."""
    all_generations = (*GOOD.generations, Generation(0), Generation(3, {"c": (0, 1)}))
    wrote = (*GOOD.writes, entry(4, "w2.1", 3, 4, key=OTHER), entry(5, "w2.1", 4, 4, key=OTHER))
    facts = replace(GOOD, guarantee="at_least_once", writes=wrote, generations=all_generations)
    assert group_resets(facts) == 1
    forgotten = "generations_go_up: generation 0 follows 4"
    assert violations(facts) == [forgotten]
    assert len(violations(replace(facts, generations=GOOD.generations))) == 2, "the group was not reset"
    two = replace(facts, writes=(*wrote, entry(6, "w3.1", 4, 4, key=OTHER)))
    wrong = "each_task_has_a_single_owner: task 0_0 was processed by w2.1, w3.1 in generation 4"
    assert sorted(violations(two)) == sorted([wrong, forgotten])
