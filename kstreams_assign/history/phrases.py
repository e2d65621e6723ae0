"""Words that the report and the answers share. Pure; the text is plain, escaping is the page's business."""

from __future__ import annotations

CAUSE_WORDS = {
    "join": "joins",
    "leave": "leaves",
    "replace": "replacements",
    "probe": "probes",
    "follow_up": "follow-ups",
    "rejoin": "rejoins",
    "topic_change": "topic changes",
    "leader_change": "leader changes",
    "first": "the first that was seen",
    "empty": "groups that went empty",
    "unknown": "of unknown cause",
}


def many(count: int, noun: str, plural: str | None = None) -> str:
    """``1 group``, ``1,203 groups``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
