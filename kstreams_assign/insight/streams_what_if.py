"""``what-if`` for a streams group (KIP-1071): what the broker would do, and a classic group beside it.

What lives here: the outcomes as text and as JSON. What must not: predictions (``observe.streams_what_if``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kstreams_assign.insight.record_text import printable
from kstreams_assign.insight.show import COLD, QUIET, bullets
from kstreams_assign.observe.alternatives import Row, facts
from kstreams_assign.observe.reasons import first
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.observe.streams_state import PlayableGroup
from kstreams_assign.observe.streams_what_if import (
    StreamsChange,
    StreamsMove,
    StreamsOutcome,
    classic_outcome,
    cold_in_classic_group,
    predict_streams_change,
)

MS_SHOWN_BELOW = 60_000


class PlayedChange:
    """A change, played in the group and in a classic group. ``offsets_per_s``: how fast one process restores."""

    def __init__(
        self, snapshot: StreamsSnapshot, group: PlayableGroup, change: StreamsChange, offsets_per_s: int | None
    ) -> None:
        self._snapshot = snapshot
        self._group = group
        self._offsets_per_s = offsets_per_s
        self._outcome: StreamsOutcome = predict_streams_change(group.state, change, offsets_per_s)
        self._classic = classic_outcome(group.state, change, offsets_per_s)

    def document(self) -> dict[str, Any]:
        """Return the outcomes as JSON. ``silence_ms``: least and most time without output; null: not known."""
        state, outcome = self._group.state, self._outcome
        return {
            "group": self._snapshot.group.group_id,
            "protocol": "streams",
            "processes": len(self._snapshot.processes),
            "tasks": len(self._snapshot.tasks),
            "restore_rate": self._offsets_per_s,
            "num_standby_replicas": state.group.num_standby_replicas,
            "heartbeat_interval_ms": state.heartbeat_interval_ms,
            "change": self._text(),
            "owner_changes": len(outcome.moves),
            "owner_changes_range": list(outcome.owner_changes_range),
            "cold": len(outcome.cold),
            "offsets_read": sum(move.restore_offsets for move in outcome.moves),
            "new_standbys": outcome.new_standbys,
            "silence_ms_max": outcome.silence_ms_max,
            "moves": [
                {
                    "task": self._group.name(move.task),
                    "from": move.source,
                    "to": self._present(move.destination),
                    "warm": move.is_warm,
                    "offsets": move.restore_offsets,
                    "silence_ms": None if move.silence_ms is None else list(move.silence_ms),
                    "away": move.away,
                }
                for move in outcome.moves
            ],
            "warm_join": {"cold": len(outcome.cold_with_warm_join), "silence_ms_max": self._silence_with_warm_join()}
            if outcome.change.add
            else None,
            "classic": facts(Row(self._classic), {})
            | {"change": self._text(), "cold": cold_in_classic_group(self._classic)},
            "assumed": self._assumed(),
        }

    def picture(self) -> RenderableType:
        """Return the outcomes to look at."""
        snapshot, outcome = self._snapshot, self._outcome
        count = f"{len(snapshot.tasks)} tasks on {len(snapshot.processes)} processes"
        parts: list[RenderableType] = [
            Text(printable(f"{snapshot.group.group_id}: {count}, streams protocol"), "bold"),
            Text(printable(self._text()), "cyan"),
            self._table(),
        ]
        if outcome.moves:
            parts += [Text("moves:"), bullets(first(list(self._moves()), "moves; --json has all"), "")]
        assumed = [f"{subject}: {why}" for subject, why in self._assumed().items()]
        return Group(*parts, Text("assumed:", QUIET), bullets(assumed, QUIET))

    def _table(self) -> Table:
        outcome, classic = self._outcome, self._classic
        table = Table(box=box.ROUNDED, header_style="bold")
        table.add_column("")
        for title in ("tasks move", "restored cold", "offsets to read", "silent at most", "new standbys"):
            table.add_column(title, justify="right")
        least, most = outcome.owner_changes_range
        reads = sum(move.restore_offsets for move in outcome.moves)
        table.add_row(
            "as it is: the broker",
            f"{least:,}" if least == most else f"{least:,}-{most:,}",
            Text(f"{len(outcome.cold):,}", COLD if outcome.cold else ""),
            f"{reads:,}",
            "?" if outcome.silence_ms_max is None else _duration(outcome.silence_ms_max),
            f"{outcome.new_standbys:,}",
        )
        if outcome.change.add:
            cold, silence = outcome.cold_with_warm_join, self._silence_with_warm_join()
            table.add_row(
                "workers join warm",
                f"{least:,}" if least == most else f"{least:,}-{most:,}",
                Text(f"{len(cold):,}", COLD if cold else ""),
                f"{reads:,}",
                "a hand-over" if not cold else "?" if silence is None else _duration(silence),
                f"{outcome.new_standbys:,}",
            )
        restored_cold = cold_in_classic_group(classic)
        table.add_row(
            f"classic: {classic.assignor}",
            f"{classic.owner_changes + classic.adopted:,}",
            Text(f"{restored_cold:,}", COLD if restored_cold else ""),
            f"{classic.offsets_read:,}",
            "a hand-over" if not restored_cold else "?",
            "",
        )
        return table

    def _silence_with_warm_join(self) -> int | None:
        """Return the longest silence if workers join warm; 0 if it is a hand-over, None if it is not known."""
        silences = [move.silence_ms for move in self._outcome.cold_with_warm_join]
        return None if None in silences else max((most for _, most in filter(None, silences)), default=0)

    def _moves(self) -> Iterator[str]:
        """Describe the moves, the longest silence first."""
        for move in sorted(self._outcome.moves, key=lambda move: (-move.restore_offsets, move.task)):
            to = move.destination[:8] if self._present(move.destination) else "a new process"
            yield f"{self._group.name(move.task)} from {move.source[:8]} to {to}: {_wait(move)}"

    def _present(self, process: str) -> str | None:
        """Return a process of the group; None for one that joins."""
        return process if process in self._snapshot.processes else None

    def _text(self) -> str:
        change = self._outcome.change
        threads = f" of {change.threads} members" if change.threads > 1 else ""
        parts = [f"add {change.add}{threads}" if change.add else "", *(f"remove {each[:8]}" for each in change.remove)]
        if change.num_standby_replicas is not None:
            parts.append(f"num_standby_replicas = {change.num_standby_replicas}")
        return ", ".join(filter(None, parts)) or "nothing changes"

    def _assumed(self) -> Mapping[str, str]:
        rate = self._offsets_per_s
        state = self._group.state
        assumed = {
            **self._group.assumed,
            "restore rate": "not known, so the silence is not either: give --restore-rate"
            if rate is None
            else f"{rate:,} offsets/s a process, given",
            "silence": "at least the restore of the task alone; at most the restore of all that its new process gets, "
            f"and one heartbeat interval ({state.heartbeat_interval_ms:,} ms) until it learns of the task; the old "
            "owner works until its heartbeat asks it to give the task up, and reports that at once",
            "change": "processes leave, then those that join do so one after the other; they have no state",
            "classic group": "the same processes with this project's assignor, which moves a task when its state is "
            "there; what has to be read is read by warm-ups before the move, and by tasks without an owner after it",
        }
        if self._outcome.change.add:
            assumed["workers join warm"] = (
                "the processes that join are workers of this package, which restore the state of their tasks first "
                "(warm_join); a task whose owner leaves is silent until it is restored, unless a standby of it stays"
            )
            assumed["new ids"] = "random; they decide ties, so the moves are those of the most likely outcome"
        return assumed


def _wait(move: StreamsMove) -> str:
    if not move.restore_offsets:
        text = "a standby has its state" if move.is_warm else "nothing to read"
        if move.silence_ms is not None:
            return f"{text}, silent for {_duration(move.silence_ms[1])} at most"
    else:
        text = f"{move.restore_offsets:,} offsets to read"
    if move.away is not None:
        return f"{text}; runs nowhere until {move.away[:8]} is back, or its session ends"
    if move.silence_ms is None:
        return text
    least, most = map(_duration, move.silence_ms)
    return f"{text}, silent for {least} to {most}"


def _duration(ms: int) -> str:
    return f"{ms / 1000:,.1f} s" if ms < MS_SHOWN_BELOW else f"{ms / 60_000:,.1f} min"
