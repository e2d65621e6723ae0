"""The checkers: each a pure function from facts to violations, and each can fail (``test_checks``).

They are independent of the system: they know the bytes that the application writes and Kafka's topics, not how members
decide, commit or restore.
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
"""A worker that starts gives up after 30 seconds. It is the broker's fault if the broker was away for half of them."""


@dataclass(frozen=True, slots=True)
class Account:
    """The fate of the inputs. ``overwritten``: ids in no final entry, as a process that had slept overwrote them."""

    lost: tuple[int, ...]
    overwritten: tuple[int, ...]
    duplicated: tuple[int, ...]


def final_entries(writes: Iterable[Write]) -> dict[tuple[int, bytes], Entry]:
    """Return the newest entry of each key. Raises ``Unsound``."""
    newest = {(write.partition, write.key): write.value for write in writes}
    return {key: read_entry(value) for key, value in newest.items() if value is not None}


def keys_of(writes: Iterable[Write]) -> dict[int, set[bytes]]:
    """Return the keys of each changelog partition."""
    keys: dict[int, set[bytes]] = defaultdict(set)
    for write in writes:
        keys[write.partition].add(write.key)
    return keys


def account(facts: Facts) -> Account:
    """Account for every input id, by its number in the final state and in the output."""
    applied = Counter(chain.from_iterable(entry.ids for entry in final_entries(facts.writes).values()))
    emitted = Counter(row.id for row in facts.rows)
    sent = Counter(facts.inputs)
    stale = _taken_away(facts.writes, sent.keys() - applied.keys(), facts.slept)
    twice = {number for number, times in sent.items() if applied[number] > times or emitted[number] > times}
    lost = (sent.keys() - applied.keys() - stale) | (sent.keys() - emitted.keys())
    return Account(tuple(sorted(lost)), tuple(sorted(stale)), tuple(sorted(twice)))


def _taken_away(writes: Iterable[Write], missing: Iterable[int], slept: frozenset[str]) -> set[int]:
    """Return the missing ids that were in an entry until a process that had slept wrote it without them."""
    awaited = set(missing)
    if not awaited:
        return set()
    before: dict[tuple[int, bytes], set[int]] = defaultdict(set)
    taken_by: dict[int, str] = {}
    for write in writes:
        entry = read_entry(write.value) if write.value is not None else Entry("", 0, ())
        present = awaited & set(entry.ids)
        for number in before[write.partition, write.key] - present:
            taken_by[number] = entry.writer
        before[write.partition, write.key] = present
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
    """Each input is in the final state and in the output; under at-least-once a sleeper may have overwritten it."""
    result = account(facts)
    lost = (*result.lost, *(result.overwritten if facts.guarantee == EXACTLY_ONCE else ()))
    return _ids("lost", lost)


def nothing_is_applied_twice(facts: Facts) -> list[str]:
    """Under exactly-once."""
    return (
        _ids("applied or emitted more than once", account(facts).duplicated) if facts.guarantee == EXACTLY_ONCE else []
    )


def nothing_is_made_up(facts: Facts) -> list[str]:
    """State and output have only ids that were sent."""
    applied = set(chain.from_iterable(entry.ids for entry in final_entries(facts.writes).values()))
    return _ids("never sent", sorted((applied | {row.id for row in facts.rows}) - set(facts.inputs)))


def acknowledged_inputs_are_there(facts: Facts) -> list[str]:
    """Each acknowledged input is in the input topic exactly once; otherwise the run proves nothing about workers."""
    sent = Counter(facts.inputs)
    missing = [number for number in sorted(facts.acknowledged) if not sent[number]]
    twice = [number for number, times in sent.items() if times > 1]
    return [
        *_ids("acknowledged, but not in the input topic", missing),
        *_ids("more than once in the input topic", twice),
    ]


def each_task_has_a_single_owner(facts: Facts) -> list[str]:
    """In a generation, only one process writes for a task, and only one member is assigned it."""
    return [*_two_wrote(facts), *_two_were_given(facts)]


def _two_wrote(facts: Facts) -> list[str]:
    outputs: dict[int, list[tuple[int, str]]] = defaultdict(list)
    wrote: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for row in facts.rows:
        outputs[row.partition].append((row.generation, row.writer))
    for write in facts.writes:
        if write.value is not None:
            entry = read_entry(write.value)
            wrote[write.partition].append((entry.generation, entry.writer))
    resets = group_resets(facts)
    writers: dict[tuple[int, int, int], set[str]] = defaultdict(set)
    for partition, works in chain(outputs.items(), wrote.items()):
        for life, (generation, writer) in _lives(works, resets):
            writers[partition, life, generation].add(_owner(facts, writer))
    return [
        f"task 0_{partition} was processed by {', '.join(sorted(names))} in generation {generation}"
        for (partition, _, generation), names in sorted(writers.items())
        if len(names) > 1
    ]


def _owner(facts: Facts, writer: str) -> str:
    """Return whose work it is: in a streams group a process that comes back is the same member, at the same epoch."""
    return writer.partition(".")[0] if facts.protocol == "streams" else writer


def group_resets(facts: Facts) -> int:
    """Return how often the coordinator forgot the group, so that its generations started again.

    Kafka 4.3.1 does so if it is killed and loads its log while its leadership changes: it takes the records of the
    epoch before for the state of the next one.
    """
    return sum(after.number == 0 < before.number for before, after in pairwise(facts.generations))


def _lives(works: Sequence[tuple[int, str]], resets: int) -> Iterable[tuple[int, tuple[int, str]]]:
    """Yield each work with the number of the group's life; a life ends at the largest falls of the generation."""
    falls = sorted(
        (after[0] - before[0], place)
        for place, (before, after) in enumerate(pairwise(works), 1)
        if after[0] < before[0]
    )
    ends = {place for _, place in falls[:resets]}
    return zip(accumulate(place in ends for place in range(len(works))), works, strict=True)


def _two_were_given(facts: Facts) -> list[str]:
    return [
        f"generation {generation.number} assigned partitions {doubled} to more than one member"
        for generation in facts.generations
        if (doubled := _more_than_once(generation.active))
    ]


def _more_than_once(given: Mapping[str, Iterable[int]]) -> list[int]:
    return [partition for partition, times in Counter(chain.from_iterable(given.values())).items() if times > 1]


def warmups_are_within_the_limit(facts: Facts) -> list[str]:
    """A generation has at most the allowed warm-ups in the whole group."""
    return [
        f"generation {generation.number} has {count} warm-ups, {facts.warmups_max} are allowed: "
        f"{dict(generation.warmups)}"
        for generation in facts.generations
        if (count := sum(map(len, generation.warmups.values()))) > facts.warmups_max
    ]


def stores_are_their_changelogs(facts: Facts) -> list[str]:
    """Each store on disk equals its changelog up to its offset.

    Not checked if a sleeper may have written in between.
    """
    if facts.slept and facts.guarantee != EXACTLY_ONCE:
        return []
    wrong = [text for store in facts.stores for text in _differences(store, facts.writes)]
    return wrong + [
        f"{_where(store)} is at offset {store.offset}, the changelog ends at {facts.changelog_ends[store.partition]}"
        for store in facts.stores
        if store.offset > facts.changelog_ends[store.partition]
    ]


def _differences(store: Store, writes: Iterable[Write]) -> list[str]:
    earlier = (write for write in writes if write.partition == store.partition and write.offset < store.offset)
    newest = {write.key: write.value for write in earlier}
    expected = {key: value for key, value in newest.items() if value is not None}
    keys = (expected.keys() | store.entries.keys()) - store.unread
    other = sorted(key for key in keys if expected.get(key) != store.entries.get(key))
    how = f"differs from the changelog up to {store.offset} in {len(other)} keys: {other[:NAMED]}"
    return [f"{_where(store)} {how}"] if other else []


def _where(store: Store) -> str:
    return f"the store of 0_{store.partition} that {store.writer} left"


def damage_is_of_our_making(facts: Facts) -> list[str]:
    """No store is damaged, except where files were damaged on purpose and the block has not been read yet."""
    return [
        f"{_where(store)} is damaged: {store.damage}" for store in facts.stores if store.damage and not store.harmed
    ]


def offsets_never_go_back(facts: Facts) -> list[str]:
    """The committed offsets of a partition never decrease, in the coordinator's order."""
    newest: dict[int, int] = {}
    wrong = []
    for commit in facts.commits:
        if commit.offset < newest.get(commit.partition, 0):
            wrong.append(f"partition {commit.partition}: from {newest[commit.partition]} back to {commit.offset}")
        newest[commit.partition] = commit.offset
    return wrong


def generations_go_up(facts: Facts) -> list[str]:
    """Generations never decrease, also after the coordinator was killed. The same number may repeat."""
    numbers = [generation.number for generation in facts.generations]
    return [f"generation {after} follows {before}" for before, after in pairwise(numbers) if after < before]


def workers_end_as_they_should(facts: Facts) -> list[str]:
    """Workers end by our signal, with status 0 on request, or because the broker was away for long."""
    return [
        f"{exited.writer} ended with status {exited.status}: {exited.said or 'no output'}"
        for exited in facts.exits
        if exited.status != 0
        and not exited.by_us
        and not (NO_BROKER in exited.said and exited.without_broker_s >= NO_BROKER_S)
    ]


def the_group_comes_to_rest(facts: Facts) -> list[str]:
    """After all faults the group is balanced, without warm-ups, and all input is committed."""
    return list(facts.restless)


CHECKS: tuple[Callable[[Facts], list[str]], ...] = (
    entries_are_sound,
    acknowledged_inputs_are_there,
    nothing_is_lost,
    nothing_is_applied_twice,
    nothing_is_made_up,
    each_task_has_a_single_owner,
    warmups_are_within_the_limit,
    stores_are_their_changelogs,
    damage_is_of_our_making,
    offsets_never_go_back,
    generations_go_up,
    workers_end_as_they_should,
    the_group_comes_to_rest,
)


def violations(facts: Facts) -> list[str]:
    """Return all violations, each with its checker's name. If entries are unsound, only that is checked."""
    unsound = entries_are_sound(facts)
    checks = [entries_are_sound] if unsound else CHECKS
    return [f"{check.__name__}: {violation}" for check in checks for violation in check(facts)]


def _ids(what: str, numbers: Iterable[int]) -> list[str]:
    listed = list(numbers)
    return [f"{len(listed)} ids {what}: {listed[:NAMED]}"] if listed else []
