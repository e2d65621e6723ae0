"""Whom a search asks next: against a simulated group, and against a slow search that asks everybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kstreams_assign.query.messages import ERROR_CODES, Answer, Found, Owners, Reason, Refused, Role, Unanswered
from kstreams_assign.query.search import (
    ASK_MS_MAX,
    PAUSE_MS_MAX,
    THEN,
    Answered,
    Ask,
    Begin,
    Effect,
    GiveUp,
    Pause,
    Refuse,
    Return,
    Search,
    Unreachable,
    Woke,
)

FOUND = Found(b"7", Role.ACTIVE, 0)
DEADLINE_MS = 5_000


def not_present(generation: int, active: str | None, *standbys: str, retry_ms: int = 50) -> Unanswered:
    return Unanswered(Reason.NOT_PRESENT, "not here", Owners(generation, active, standbys), None, retry_ms)


@dataclass
class Group:
    """What each process answers; a process that is missing is not reachable. Costs: milliseconds of each event."""

    answers: Mapping[str, Answer]
    ask_ms: int = 3

    def run(self, search: Search) -> tuple[Effect, list[str], list[list[str]], int]:
        """Return the last effect, all that were asked, the same by round, and the time that passed."""
        now_ms, event, rounds = 0, Begin(), [[]]
        for _ in range(100_000):
            effect = search.handle(event, now_ms)
            match effect:
                case Ask(endpoint, timeout_ms):
                    assert 0 < timeout_ms <= ASK_MS_MAX
                    rounds[-1].append(endpoint)
                    answer = self.answers.get(endpoint)
                    now_ms += self.ask_ms if answer else timeout_ms
                    event = Answered(endpoint, answer) if answer else Unreachable(endpoint, "refused")
                case Pause(pause_ms):
                    assert 0 < pause_ms <= PAUSE_MS_MAX
                    rounds.append([])
                    now_ms, event = now_ms + pause_ms, Woke()
                case _:
                    return effect, [endpoint for each in rounds for endpoint in each], rounds, now_ms
        raise AssertionError("the search never ends")


def test_a_member_that_has_the_key_answers_at_once():
    effect, asked, _, _ = Group({"a": FOUND}).run(Search(["a", "b"], DEADLINE_MS, replicas=False))
    assert (effect, asked) == (Return("a", FOUND), ["a"])


def test_a_member_that_has_it_not_names_the_owner_and_the_standbys_are_asked_only_with_a_lag():
    group = Group({"a": not_present(1, "b", "c"), "c": Found(b"6", Role.STANDBY, 2)})
    effect, asked, _, _ = group.run(Search(["a"], DEADLINE_MS, replicas=True))
    assert (effect, asked) == (Return("c", Found(b"6", Role.STANDBY, 2)), ["a", "b", "c"])
    effect, asked, _, _ = group.run(Search(["a"], DEADLINE_MS, replicas=False))
    assert isinstance(effect, GiveUp)
    assert "c" not in asked
    assert "b: refused" in effect.text
    assert "a: not here" in effect.text


def test_the_owners_of_the_newest_generation_count():
    group = Group({"a": not_present(3, "b"), "b": not_present(2, "old"), "old": not_present(9, "new"), "new": FOUND})
    effect, asked, _, _ = group.run(Search(["a", "old"], DEADLINE_MS, replicas=False))
    assert (effect, asked) == (Return("new", FOUND), ["a", "b", "old", "new"])


def test_an_answer_of_an_older_generation_does_not_replace_the_owners():
    group = Group({"a": not_present(3, "gone"), "b": not_present(2, "old"), "old": FOUND})
    effect, asked, _, _ = group.run(Search(["a", "b"], DEADLINE_MS, replicas=False))
    assert isinstance(effect, GiveUp)
    assert "old" not in asked


def test_two_that_name_each_other_are_asked_once_in_a_round():
    group = Group({"a": not_present(1, "b"), "b": not_present(1, "a")})
    effect, _, rounds, _ = group.run(Search(["a"], DEADLINE_MS, replicas=True))
    assert isinstance(effect, GiveUp)
    assert effect.retry_after_ms > 0
    assert rounds[:-1] == [["a", "b"]] * (len(rounds) - 1)


def test_a_search_waits_as_long_as_the_processes_ask_for():
    search = Search(["a"], DEADLINE_MS, replicas=False)
    assert search.handle(Begin(), 0) == Ask("a", 2_000)
    assert search.handle(Answered("a", not_present(1, None, retry_ms=400)), 5) == Pause(400)
    assert search.handle(Woke(), 405) == Ask("a", 2_000)
    assert isinstance(search.handle(Answered("a", not_present(1, None, retry_ms=400)), 4_900), GiveUp)


@pytest.mark.parametrize("deadline_ms", [1_500, 2_000, 5_000])
@pytest.mark.parametrize("members", [["a"], ["hangs", "c"], ["hangs", "also hangs", "c"], ["hangs", "a"]])
def test_a_process_that_hangs_leaves_time_for_a_replica(members, deadline_ms):
    found = Found(b"6", Role.STANDBY, 2)
    group = Group({"a": not_present(1, "hangs", "c"), "c": found})
    effect, _, rounds, _ = group.run(Search(members, deadline_ms, replicas=True))
    assert (effect, len(rounds)) == (Return("c", found), 1)


def test_the_time_that_is_left_is_shared_by_the_processes_that_may_answer():
    search = Search(["a", "b"], 2_000, replicas=True)
    assert search.handle(Begin(), 0) == Ask("a", 1_000)
    assert search.handle(Answered("a", not_present(1, "x", "y", "a", "z")), 500) == Ask("x", 500)
    assert search.handle(Answered("x", not_present(1, "x", "y", "a", "z")), 600) == Ask("y", 700)
    assert search.handle(Unreachable("y", "slow"), 1_300) == Ask("z", 700)
    assert search.handle(Unreachable("z", "refused"), 1_301) == Ask("b", 699)


@pytest.mark.parametrize(("members", "deadline_ms"), [(1, 400), (8, 1_000), (24, 5_000), (64, 5_000)])
def test_a_healthy_member_far_away_has_time_to_answer_however_many_are_listed(members, deadline_ms):
    search = Search([f"m{number}" for number in range(members)], deadline_ms, replicas=True)
    asked = search.handle(Begin(), 0)
    assert isinstance(asked, Ask)
    assert asked.timeout_ms >= min(deadline_ms, 500)


def test_the_active_task_alone_has_all_the_time_however_many_members_are_left_to_ask():
    search = Search("abcdefghij", 1_500, replicas=False)
    assert search.handle(Begin(), 0) == Ask("a", 500)
    assert search.handle(Answered("a", not_present(1, "x", "y")), 5) == Ask("x", 1_495)


@pytest.mark.parametrize("code", sorted({code for code in THEN if code not in set(Reason)} - {"wrong_application"}))
def test_a_wrong_query_ends_at_the_first_refusal(code):
    refused = Refused(code, "no")
    effect, asked, _, _ = Group({"a": refused, "b": FOUND}).run(Search(["a", "b"], DEADLINE_MS, replicas=False))
    assert (effect, asked) == (Refuse(refused), ["a"])


def test_another_application_at_an_old_address_is_passed_over_unless_there_is_no_other():
    other = Refused("wrong_application", "no")
    members = Search(["a", "b"], DEADLINE_MS, replicas=False)
    assert Group({"a": other, "b": FOUND}).run(members)[0] == Return("b", FOUND)
    assert Group({"a": other, "b": other}).run(Search(["a", "b"], DEADLINE_MS, replicas=False))[0] == Refuse(other)


def test_every_error_of_the_protocol_has_a_consequence():
    assert THEN.keys() == ERROR_CODES


ENDPOINTS = list("abcdef")
endpoints = st.sampled_from(ENDPOINTS)
answers = st.one_of(
    st.just(FOUND),
    st.builds(
        lambda reason, generation, active, standbys, retry_ms: Unanswered(
            reason, "no", Owners(generation, active, tuple(standbys)), None, retry_ms
        ),
        st.sampled_from(Reason),
        st.integers(-1, 3),
        st.none() | endpoints,
        st.lists(endpoints, max_size=3),
        st.integers(0, 3_000),
    ),
    st.just(Unanswered(Reason.NOT_READY, "busy")),
    st.just(Refused("wrong_application", "no")),
)


@given(
    group=st.dictionaries(endpoints, answers),
    members=st.lists(endpoints, min_size=1, max_size=4, unique=True),
    replicas=st.booleans(),
    deadline_ms=st.integers(0, 20_000),
    ask_ms=st.integers(0, 900),
)
def test_whatever_the_processes_say_a_search_ends_in_time_and_asks_nobody_twice_in_a_round(
    group, members, replicas, deadline_ms, ask_ms
):
    effect, asked, rounds, took_ms = Group(group, ask_ms).run(Search(members, deadline_ms, replicas=replicas))
    assert took_ms <= deadline_ms + ask_ms
    assert all(len(each) == len(set(each)) for each in rounds)
    known = set(members)
    for each in group.values():
        if isinstance(each, Unanswered) and each.owners:
            known |= {each.owners.active, *(each.owners.standbys if replicas else ())}
    assert set(asked) <= known
    if isinstance(effect, Return):
        assert group[effect.endpoint] == effect.found


@given(
    group=st.dictionaries(endpoints, answers),
    members=st.lists(endpoints, min_size=1, max_size=4, unique=True),
    replicas=st.booleans(),
)
@example(  # "e" is asked first and names no standby
    group={"a": FOUND, "b": not_present(0, None, "e", "a", retry_ms=0), "e": not_present(0, None, retry_ms=0)},
    members=["b"],
    replicas=True,
)
def test_a_first_round_finds_what_asking_everybody_that_the_newest_owners_name_finds(group, members, replicas):
    """The slow twin: ask all members and, over and over, the owners of the newest generation heard of."""
    reached, newest, found = set(), [], False
    todo = list(members)
    while todo:
        endpoint = todo.pop(0)
        if endpoint in reached:
            continue
        reached.add(endpoint)
        answer = group.get(endpoint)
        found = found or isinstance(answer, Found)
        if isinstance(answer, Unanswered) and answer.owners:
            newest.append(answer.owners)
        generation = max((owners.generation for owners in newest), default=None)
        newest = [owners for owners in newest if owners.generation == generation]
        for owners in newest:
            todo += [owners.active] if owners.active else []
            todo += owners.standbys if replicas else ()
    generations = {each.owners.generation for each in group.values() if isinstance(each, Unanswered) and each.owners}
    must_find = found and len(generations) <= 1
    effect, _, _, _ = Group(group, 0).run(Search(members, 10**9 if must_find else 1_000, replicas=replicas))
    if must_find:
        assert isinstance(effect, Return)
    if not any(isinstance(answer, Found) for answer in group.values()):
        assert not isinstance(effect, Return)
