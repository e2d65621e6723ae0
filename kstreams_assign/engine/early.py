"""Early probing without I/O: who publishes progress, who listens, and when the gain of a rebalance is computed.

``group.probing`` says what a rebalance would bring and when that is worth one; this machine says for which generation,
of what news, and for whom. Where a Python member leads, all members publish the offset sums of their replicas while a
probing rebalance is due, and the leader listens. A Java leader does not: then a member watches its own replicas, each
until it has caught up once. Later it may fall behind and catch up with any commit, which is worth no rebalance.

A generation ends with the next assignment: events for an older one change nothing. ``Assigned`` may come from another
thread than the other events, as it only replaces the generation. What must not live here: the channel, its records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import ClassVar
from uuid import UUID

from kstreams_assign.frozen import dataclass
from kstreams_assign.group.probing import (
    Answer,
    Gain,
    GainReported,
    GenerationStarted,
    Prober,
    Rejoin,
    Sums,
    compute_gain,
    find_tasks_behind,
)
from kstreams_assign.group.values import Adopted, LeaderState
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId

REPUBLISH_MS = 5_000
"""How often unchanged progress is published again: a leader may have begun to read since."""

LOOK_AGAIN_MS = 5_000
"""How often a leader computes the gain again without news, as the changelogs grow."""

OWN_LOOK_MS = 1_000
"""How often a member under a Java leader looks after its own replicas."""

# --- events -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assigned:
    """An assignment came. ``standing``: what this member decided, if it leads. ``sums``: of the tasks it has."""

    generation: int
    adopted: Adopted
    standing: LeaderState | None
    sums: Sums


@dataclass(frozen=True, slots=True)
class Turned:
    """Time has passed. ``sums``: the offset sums of this member's tasks."""

    sums: Sums


@dataclass(frozen=True, slots=True)
class Published:
    """What ``Publish`` asked for has arrived."""

    generation: int
    sums: Sums


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer to ``Listen``: what processes have published for this generation; nothing, if there is no news."""

    generation: int
    sums: Mapping[UUID, Sums]


@dataclass(frozen=True, slots=True)
class EndsKnown:
    """The answer to ``LookUpEnds``, empty if the brokers gave none. ``sums``: of this member's tasks, read after it."""

    generation: int
    ends: Sums
    sums: Sums


Event = Assigned | Turned | Published | Heard | EndsKnown

# --- effects ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish the offset sums of this member's replicas, and report ``Published`` once that is acknowledged."""

    generation: int
    sums: Sums


@dataclass(frozen=True, slots=True)
class Listen:
    """Read what members have published, and report ``Heard``."""

    generation: int


@dataclass(frozen=True, slots=True)
class LookUpEnds:
    """Look up the sum of the end offsets of each task's changelogs, and report ``EndsKnown``."""

    generation: int
    tasks: Collection[TaskId]


@dataclass(frozen=True, slots=True)
class AskForRebalance:
    """Ask for a rebalance, which brings ``gain``."""

    reason: str
    gain: Gain


Effect = Publish | Listen | LookUpEnds | AskForRebalance

# --- a generation -------------------------------------------------------------------


@dataclass(slots=True)
class Generation:
    """A generation in which a rebalance may be asked for early. Times are of the caller's clock.

    ``standing``: what this member decided, if it leads. ``heard``: what processes have published. ``gain`` and
    ``answer``: what a rebalance would bring, and whether it is asked for; None until that is known.

    ``own`` is set where the leader does not read progress: the offset sums, when the generation began, of this member's
    replicas that had not caught up before. ``late``: those that were behind then, None until the end offsets are known.
    ``caught_up``: its replicas that have caught up, in this generation or in those before it.
    """

    number: int
    prober: Prober
    standing: LeaderState | None = None
    own: Sums | None = None
    late: Collection[TaskId] | None = None
    caught_up: frozenset[TaskId] = frozenset()
    heard: dict[UUID, Sums] = field(default_factory=dict)
    gain: Gain | None = None
    answer: Answer | None = None
    looked_ms: int | None = None
    published: Sums | None = None
    published_ms: int = 0

    @property
    def alone(self) -> bool:
        """Whether this member asks for its own replicas."""
        return self.own is not None

    @property
    def over(self) -> bool:
        """Whether nothing is awaited, so that there is nothing to ask for."""
        return self.own is not None and self.late is not None and not self.late


class Early:
    """The machine. ``floor_ms``: no rebalance is asked for sooner after an assignment.

    ``republish_ms``: how often unchanged progress is published again.
    """

    def __init__(self, floor_ms: int, acceptable_recovery_lag: int, *, republish_ms: int = REPUBLISH_MS) -> None:
        self._floor_ms = floor_ms
        self._acceptable = acceptable_recovery_lag
        self._republish_ms = republish_ms
        self._generation: Generation | None = None

    @property
    def generation(self) -> Generation | None:
        """The present generation, to look at; None if nothing is to be done in it."""
        generation = self._generation
        return None if generation is None or generation.over else generation

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return the effects in order."""
        if isinstance(event, Assigned):
            self._generation = self._begun(event, now_ms)
            return []
        generation = self.generation
        if generation is None or (not isinstance(event, Turned) and event.generation != generation.number):
            return []
        return self._REACTIONS[type(event)](self, generation, event, now_ms)

    def _begun(self, event: Assigned, now_ms: int) -> Generation | None:
        """Return the generation if a rebalance may be asked for in it; a follow-up comes by itself."""
        adopted = event.adopted
        if adopted.follow_up:
            return None
        generation = Generation(event.generation, Prober(self._floor_ms), event.standing)
        if event.standing is None and adopted.assignor is None:
            self._watch_own(generation, event)
        elif adopted.next_probe_ms is None:
            return None
        generation.prober.handle(GenerationStarted(), now_ms)
        return generation

    def _watch_own(self, generation: Generation, event: Assigned) -> None:
        replicas = event.adopted.standby | event.adopted.warmup
        if self._generation is not None:
            generation.caught_up = self._generation.caught_up & replicas
        generation.own = {task: event.sums.get(task, 0) for task in replicas - generation.caught_up}
        if not generation.own:
            generation.late = ()

    def _turned(self, generation: Generation, event: Turned, now_ms: int) -> list[Effect]:
        if generation.own is not None:
            tasks = generation.own if generation.late is None else generation.late
            return [LookUpEnds(generation.number, tasks)] if self._looks(generation, OWN_LOOK_MS, now_ms) else []
        effects: list[Effect] = []
        replicas = {task: at for task, at in event.sums.items() if at != RUNNING_OFFSET_SUM}
        known = replicas == generation.published and now_ms - generation.published_ms < self._republish_ms
        if replicas and not known:
            effects.append(Publish(generation.number, replicas))
        if generation.standing is not None:
            effects.append(Listen(generation.number))
        return effects

    def _published(self, generation: Generation, event: Published, now_ms: int) -> list[Effect]:
        generation.published, generation.published_ms = event.sums, now_ms
        return []

    def _heard(self, generation: Generation, event: Heard, now_ms: int) -> list[Effect]:
        """Compute the gain again after news, and now and then."""
        if generation.standing is None:
            return []
        news = any(generation.heard.get(process) != sums for process, sums in event.sums.items())
        generation.heard.update(event.sums)
        if not generation.heard:
            return []
        if news or generation.gain is None or self._looks(generation, LOOK_AGAIN_MS, now_ms):
            return [LookUpEnds(generation.number, generation.standing.cluster.stateful)]
        return self._judge(generation, generation.gain, now_ms)

    def _ends_known(self, generation: Generation, event: EndsKnown, now_ms: int) -> list[Effect]:
        generation.looked_ms = now_ms
        if generation.own is not None:
            return self._judge_own(generation, generation.own, event, now_ms) if event.ends else []
        standing = generation.standing
        if standing is None:
            return []
        unknown = standing.cluster.stateful and not event.ends
        gain = Gain(0, 0) if unknown else compute_gain(standing, generation.heard, event.ends)
        return self._judge(generation, gain, now_ms)

    def _judge_own(self, generation: Generation, own: Sums, event: EndsKnown, now_ms: int) -> list[Effect]:
        """Count which of the replicas that were behind have caught up."""
        if generation.late is None:
            generation.late = find_tasks_behind(own, own, event.ends, self._acceptable)
        late = generation.late
        still = find_tasks_behind(late, event.sums, event.ends, self._acceptable)
        generation.caught_up |= (own.keys() & event.ends.keys()) - still
        return self._judge(generation, Gain(len(late) - len(still), len(still)), now_ms)

    def _judge(self, generation: Generation, gain: Gain, now_ms: int) -> list[Effect]:
        generation.gain = gain
        answer = generation.answer = generation.prober.handle(GainReported(gain), now_ms)
        return [AskForRebalance(answer.reason, gain)] if isinstance(answer, Rejoin) else []

    @staticmethod
    def _looks(generation: Generation, interval_ms: int, now_ms: int) -> bool:
        return generation.looked_ms is None or now_ms - generation.looked_ms >= interval_ms

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Effect]]]] = {
        Turned: _turned,
        Published: _published,
        Heard: _heard,
        EndsKnown: _ends_known,
    }
