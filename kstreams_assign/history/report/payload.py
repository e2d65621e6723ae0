"""A group's view as JSON for the page's scripts: short, with columns in place of objects. Their order is told here and nowhere else.

Every text from the data leaves here as text; the scripts put it on the page as text (``textContent``), never as markup.
"""

from __future__ import annotations

from typing import Any

from kstreams_assign.history.report import words
from kstreams_assign.history.report.view import Buckets, FleetView, GroupView


def group_payload(view: GroupView) -> dict[str, Any]:
    """What ``report.js`` draws a group from."""
    lags: dict[int, list[int]] = {
        index: [value for pair in bar.lags for value in pair] for index, bar in enumerate(view.bars) if bar.lags
    }
    several = len({task.subtopology for task in view.tasks}) > 1
    return {
        "group": view.line.group,
        "end": view.span.end_ms,
        "until": view.drawn_until_ms,
        "equal": view.equal_widths,
        "told": view.warmups_told,
        "titles": {
            "timeline": words.timeline_title(view),
            "rebalances": words.rebalances_title(view),
            "causes": words.causes_title(view.buckets),
            "skew": words.skew_title(view),
            "warmups": words.warmups_title(view),
            "moves": words.moves_title(view),
            "flapping": words.flapping_title(view),
        },
        "generations": [
            {
                "n": one.number,
                "t": one.time_ms,
                "state": one.state,
                "cause": one.cause,
                "sure": one.confidence,
                "why": one.evidence,
                "leader": one.leader,
                "members": one.members,
                "assignor": one.assignor,
                "joined": one.joined,
                "gone": one.gone,
                "changes": one.owner_changes,
                "adopted": one.adopted,
                "probing": one.probing,
                "next": one.next_rebalance_ms,
                "missing": one.missing,
                "unreadable": one.unreadable,
            }
            for one in view.generations
        ],
        "processes": [
            {
                "id": one.process_id,
                "endpoint": one.endpoint,
                "client": one.client_id,
                "host": one.host,
                "version": one.version,
                "ours": one.ours,
                "tags": one.tags,
            }
            for one in view.processes
        ],
        "tasks": [[one.task, one.subtopology, one.lanes, one.moves, one.busiest_hour] for one in view.tasks],
        "bars": [
            value
            for bar in view.bars
            for value in (bar.task, bar.lane, bar.process, int(bar.role), bar.first, bar.last)
        ],
        "lags": lags,
        "moves": [
            [one.generation, one.task, one.source, one.target, one.planned, one.warm, one.held_ms, one.gap_ms]
            for one in view.moves
        ],
        "warmups": [[one.task, one.process, one.first, one.lasted_ms, one.outcome] for one in view.warmups],
        "held": [one.held_ms for one in view.moves if one.held_ms] if not view.warmups_told else [],
        "skews": {
            scope: [value for pair in points for value in pair]
            for scope, points in view.skews.items()
            if scope != "subtopology" or several
        },
        "buckets": buckets_payload(view.buckets),
    }


def buckets_payload(buckets: Buckets) -> dict[str, Any]:
    """A histogram by cause, empty bars left out (index, count, index, count ...)."""
    return {
        "start": buckets.start_ms,
        "width": buckets.width_ms,
        "unit": words.BUCKET_WORDS[buckets.width_ms],
        "counts": {
            cause: [value for index, count in enumerate(counts) if count for value in (index, count)]
            for cause, counts in buckets.counts.items()
        },
        "length": max(map(len, buckets.counts.values()), default=0),
    }


def fleet_payload(fleet: FleetView) -> dict[str, Any]:
    """What is drawn above the groups."""
    return {"buckets": buckets_payload(fleet.buckets), "title": words.causes_title(fleet.buckets)}
