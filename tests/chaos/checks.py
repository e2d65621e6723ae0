"""The checkers: each a pure function from facts to what is wrong, and each can fail (``test_checks``).

They stand apart from the system: they know the bytes that the application writes and what Kafka keeps, and nothing of how
members decide, commit or restore.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from tests.chaos.facts import Facts, Store, Write
from tests.chaos.rows import Entry, Unsound, read_entry

EXACTLY_ONCE = "exactly_once_v2"
NAMED = 20
NO_BROKER, NO_BROKER_S = "BrokerUnavailable", 15.0
"""A worker that starts gives up after half a minute; half of that is the broker's outage, or it is not the broker's fault."""


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the inputs. ``overwritten``: ids in no final entry because a process that had slept wrote over them."""

    lost: tuple[int, ...]
    overwritten: tuple[int, ...]
    duplicated: tuple[int, ...]


def final_entries(writes: Iterable[Write]) -> dict[tuple[int, bytes], Entry]:
    """The newest entry of each key. Raises ``Unsound``."""
    newest = {(write.partition, write.key): write.value for write in writes}
    return {key: read_entry(value) for key, value in newest.items() if value is not None}


def keys_of(writes: Iterable[Write]) -> dict[int, set[bytes]]:
    """All that each partition of the changelog names."""
    keys: dict[int, set[bytes]] = defaultdict(set)
    for write in writes:
        keys[write.partition].add(write.key)
    return keys


def account(facts: Facts) -> Account:
    """Every input id: in the final state and in the output, how many times, and if not, why."""
    applied = Counter(chain.from_iterable(entry.ids for entry in final_entries(facts.writes).values()))
    told = Counter(row.id for row in facts.rows)
    wanted = Counter(facts.inputs)
    stale = _taken_away(facts.writes, wanted.keys() - applied.keys(), facts.slept)
    twice = {number for number, times in wanted.items() if applied[number] > times or told[number] > times}
    lost = (wanted.keys() - applied.keys() - stale) | (wanted.keys() - told.keys())
    return Account(tuple(sorted(lost)), tuple(sorted(stale)), tuple(sorted(twice)))


def _taken_away(writes: Iterable[Write], missing: Iterable[int], slept: frozenset[str]) -> set[int]:
    """Of the missing ids, those that were in an entry until a process that had slept wrote one without them."""
    wanted = set(missing)
    if not wanted:
        return set()
    before: dict[tuple[int, bytes], set[int]] = defaultdict(set)
    taken_by: dict[int, str] = {}
    for write in writes:
        entry = read_entry(write.value) if write.value is not None else Entry("", 0, ())
        here = wanted & set(entry.ids)
        for number in before[write.partition, write.key] - here:
            taken_by[number] = entry.writer
        before[write.partition, write.key] = here
    return {number for number, writer in taken_by.items() if writer in slept}


def entries_are_sound(facts: Facts) -> list[str]:
    """No entry disagrees with its own count and digest."""
    for write in facts.writes:
        try:
            if write.value is not None:
                read_entry(write.value)
        except Unsound as cause:
            return [f"changelog partition {write.partition} offset {write.offset}: {cause}"]
    return []


def nothing_is_lost(facts: Facts) -> list[str]:
    """Each input is in the final state and in the output; under at-least-once a sleeper may have written over it."""
    found = account(facts)
    lost = (*found.lost, *(found.overwritten if facts.guarantee == EXACTLY_ONCE else ()))
    return _ids("lost", lost)


def nothing_is_applied_twice(facts: Facts) -> list[str]:
    """Under exactly-once."""
    return _ids("applied or told more than once", account(facts).duplicated) if facts.guarantee == EXACTLY_ONCE else []


def nothing_is_made_up(facts: Facts) -> list[str]:
    """Nothing is in the state or in the output that was not sent."""
    applied = set(chain.from_iterable(entry.ids for entry in final_entries(facts.writes).values()))
    return _ids("never sent", sorted((applied | {row.id for row in facts.rows}) - set(facts.inputs)))


def acknowledged_inputs_are_there(facts: Facts) -> list[str]:
    """What the broker has acknowledged is in the input topic, once: or the run says nothing about workers."""
    sent = Counter(facts.inputs)
    gone = [number for number in sorted(facts.acknowledged) if not sent[number]]
    twice = [number for number, times in sent.items() if times > 1]
    return [*_ids("acknowledged, but not in the input topic", gone), *_ids("more than once in the input topic", twice)]


def one_owner_a_generation(facts: Facts) -> list[str]:
    """No two processes work for one task in one generation, by what they wrote; nor is a task given to two members."""
    return [*_two_wrote(facts), *_two_were_given(facts)]


def _two_wrote(facts: Facts) -> list[str]:
    told: dict[int, list[tuple[int, str]]] = defaultdict(list)
    wrote: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for row in facts.rows:
        told[row.partition].append((row.generation, row.writer))
    for write in facts.writes:
        if write.value is not None:
            entry = read_entry(write.value)
            wrote[write.partition].append((entry.generation, entry.writer))
    anew = times_begun_anew(facts)
    writers: dict[tuple[int, int, int], set[str]] = defaultdict(set)
    for partition, works in chain(told.items(), wrote.items()):
        for life, (generation, writer) in _lives(works, anew):
            writers[partition, life, generation].add(writer)
    return [
        f"task 0_{partition} was worked on by {', '.join(sorted(who))} in generation {generation}"
        for (partition, _, generation), who in sorted(writers.items())
        if len(who) > 1
    ]


def times_begun_anew(facts: Facts) -> int:
    """How often the coordinator forgot the group, so that its generations began anew.

    Kafka 4.3.1 does where it is killed and loads its log while its leadership changes: what was loaded for the epoch before is
    taken for the state of the next one.
    """
    return sum(after.number == 0 < before.number for before, after in pairwise(facts.generations))


def _lives(works: Sequence[tuple[int, str]], anew: int) -> Iterable[tuple[int, tuple[int, str]]]:
    """Each work with the number of the group's life that it belongs to: the largest falls of generations are where one ends."""
    falls = sorted(
        (after[0] - before[0], place)
        for place, (before, after) in enumerate(pairwise(works), 1)
        if after[0] < before[0]
    )
    ends = {place for _, place in falls[:anew]}
    return zip(accumulate(place in ends for place in range(len(works))), works, strict=True)


def _two_were_given(facts: Facts) -> list[str]:
    return [
        f"generation {generation.number} gave partitions {doubled} to more than one member"
        for generation in facts.generations
        if (doubled := _more_than_once(generation.active))
    ]


def _more_than_once(given: Mapping[str, Iterable[int]]) -> list[int]:
    return [one for one, times in Counter(chain.from_iterable(given.values())).items() if times > 1]


def warmups_are_within_the_limit(facts: Facts) -> list[str]:
    """In the whole group, in each generation."""
    return [
        f"generation {one.number} has {count} warm-ups, {facts.warmups_max} are allowed: {dict(one.warmups)}"
        for one in facts.generations
        if (count := sum(map(len, one.warmups.values()))) > facts.warmups_max
    ]


def stores_are_their_changelogs(facts: Facts) -> list[str]:
    """Each store left on disk holds what the changelog says up to its offset. Not to be asked where a sleeper wrote between."""
    if facts.slept and facts.guarantee != EXACTLY_ONCE:
        return []
    wrong = [text for store in facts.stores for text in _differences(store, facts.writes)]
    return wrong + [
        f"{_where(one)} is at offset {one.offset}, the changelog ends at {facts.changelog_ends[one.partition]}"
        for one in facts.stores
        if one.offset > facts.changelog_ends[one.partition]
    ]


def _differences(store: Store, writes: Iterable[Write]) -> list[str]:
    told = (write for write in writes if write.partition == store.partition and write.offset < store.offset)
    newest = {write.key: write.value for write in told}
    wanted = {key: value for key, value in newest.items() if value is not None}
    keys = (wanted.keys() | store.entries.keys()) - store.unread
    other = sorted(key for key in keys if wanted.get(key) != store.entries.get(key))
    how = f"differs from the changelog up to {store.offset} in {len(other)} keys: {other[:NAMED]}"
    return [f"{_where(store)} {how}"] if other else []


def _where(store: Store) -> str:
    return f"the store of 0_{store.partition} that {store.writer} left"


def damage_is_of_our_making(facts: Facts) -> list[str]:
    """A block that cannot be read is no violation where files were damaged on purpose: it is met when it is read, not before."""
    return [f"{_where(one)} is damaged: {one.damage}" for one in facts.stores if one.damage and not one.harmed]


def offsets_never_go_back(facts: Facts) -> list[str]:
    """The committed offsets of a partition, in the order in which the coordinator wrote them."""
    newest: dict[int, int] = {}
    wrong = []
    for commit in facts.commits:
        if commit.offset < newest.get(commit.partition, 0):
            wrong.append(f"partition {commit.partition}: from {newest[commit.partition]} back to {commit.offset}")
        newest[commit.partition] = commit.offset
    return wrong


def generations_go_up(facts: Facts) -> list[str]:
    """A group's generations are numbered upwards, also when its coordinator was killed. The same again is no news of it."""
    numbers = [one.number for one in facts.generations]
    return [f"generation {after} follows {before}" for before, after in pairwise(numbers) if after < before]


def workers_end_as_they_should(facts: Facts) -> list[str]:
    """By our signal, or with status 0 after they were asked to end, or for want of a broker where there was none for long."""
    return [
        f"{one.writer} ended with status {one.status}: {one.said or 'without a word'}"
        for one in facts.exits
        if one.status != 0 and not one.by_us and not (NO_BROKER in one.said and one.without_broker_s >= NO_BROKER_S)
    ]


def the_group_comes_to_rest(facts: Facts) -> list[str]:
    """Balanced, nobody warms up, everything is committed: after all faults are mended."""
    return list(facts.restless)


CHECKS: tuple[Callable[[Facts], list[str]], ...] = (
    entries_are_sound,
    acknowledged_inputs_are_there,
    nothing_is_lost,
    nothing_is_applied_twice,
    nothing_is_made_up,
    one_owner_a_generation,
    warmups_are_within_the_limit,
    stores_are_their_changelogs,
    damage_is_of_our_making,
    offsets_never_go_back,
    generations_go_up,
    workers_end_as_they_should,
    the_group_comes_to_rest,
)


def violations(facts: Facts) -> list[str]:
    """What every checker says, each with the checker's name. A state that cannot be read is not counted in."""
    unsound = entries_are_sound(facts)
    checks = [entries_are_sound] if unsound else CHECKS
    return [f"{check.__name__}: {wrong}" for check in checks for wrong in check(facts)]


def _ids(what: str, numbers: Iterable[int]) -> list[str]:
    found = list(numbers)
    return [f"{len(found)} ids {what}: {found[:NAMED]}"] if found else []
