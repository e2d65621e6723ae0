"""A group's view as JSON for the page's scripts: short, with columns in place of objects, whose order is defined here.

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
        "drawn": view.drawn_ms,
        "until": view.drawn_until_ms,
        "equal": view.equal_widths,
        "warmups_known": view.warmups_known,
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
                "n": generation.number,
                "t": generation.time_ms,
                "state": generation.state,
                "cause": generation.cause,
                "sure": generation.confidence,
                "why": generation.evidence,
                "leader": generation.leader,
                "members": generation.members,
                "assignor": generation.assignor,
                "joined": generation.joined,
                "gone": generation.gone,
                "changes": generation.owner_changes,
                "adopted": generation.adopted,
                "probing": generation.probing,
                "next": generation.next_rebalance_ms,
                "missing": generation.missing,
                "unreadable": generation.unreadable,
                "by_broker": generation.by_broker,
                "took": generation.took_ms,
            }
            for generation in view.generations
        ],
        "processes": [
            {
                "id": process.process_id,
                "endpoint": process.endpoint,
                "client": process.client_id,
                "host": process.host,
                "version": process.version,
                "ours": process.ours,
                "tags": process.tags,
            }
            for process in view.processes
        ],
        "tasks": [[task.task, task.subtopology, task.lanes, task.moves, task.busiest_hour] for task in view.tasks],
        "bars": [
            value
            for bar in view.bars
            for value in (bar.task, bar.lane, bar.process, int(bar.role), bar.first, bar.last)
        ],
        "lags": lags,
        "moves": [
            [
                *(move.generation, move.task, move.source, move.target, move.planned, move.warm, move.held_ms),
                *(move.gap_ms, move.handover_ms),
            ]
            for move in view.moves
        ],
        "warmups": [
            [warmup.task, warmup.process, warmup.first, warmup.lasted_ms, warmup.outcome] for warmup in view.warmups
        ],
        "held": [move.held_ms for move in view.moves if move.held_ms] if not view.warmups_known else [],
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
