"""The colours of all plots, for light and dark paper; the hues also differ for colour-blind eyes, as far as hues can.

Processes beyond the palette use it again: their numbers in the bars, the hover and the highlight differ. The hues are
Okabe and Ito's, with yellow darkened for white paper, and four more of other lightness.
"""

from __future__ import annotations

from collections.abc import Mapping

INSTANCES = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"),
    *("#b5a800", "#8d6fc9", "#8fd0a8", "#a0522d", "#f2a8b8", "#7a8794"),
)

PAPER = {
    # name -> colour on light paper, on dark paper
    "paper": ("#ffffff", "#15181c"),
    "panel": ("#f5f6f8", "#1d2126"),
    "line": ("#d9dde2", "#343a42"),
    "faint": ("#eceef1", "#23282e"),
    "ink": ("#1b2026", "#e7eaee"),
    "quiet": ("#5b6570", "#a3adb8"),
    "link": ("#005a9c", "#6cb6ff"),
    "bad": ("#b3261e", "#ff8a7a"),
    "warn": ("#8a5a00", "#f0b849"),
    "good": ("#1b6e4b", "#5cc79a"),
}

CAUSES = {
    "join": ("#0072b2", "#3f9fdb"),
    "leave": ("#d55e00", "#e8762c"),
    "replace": ("#cc79a7", "#d68fb6"),
    "probe": ("#e69f00", "#e9ae2b"),
    "follow_up": ("#b9c0c8", "#59626c"),
    "rejoin": ("#56b4e9", "#8accf0"),
    "topic_change": ("#009e73", "#1fb98c"),
    "leader_change": ("#8d6fc9", "#a78be0"),
    "first": ("#5b6570", "#a3adb8"),
    "empty": ("#1b2026", "#e7eaee"),
    "unknown": ("#8c6d46", "#b59468"),
}


def style_sheet(tables: Mapping[str, Mapping[str, tuple[str, str]]] | None = None) -> str:
    """Return the colours as custom properties (``--ink``, ``--cause-probe``, ``--instance-0``), for light and dark.

    ``tables``: prefix -> name -> (light, dark); by default those of the history.
    """
    named = {"": PAPER, "cause-": CAUSES} if tables is None else {"": PAPER, **tables}
    sides = [
        "".join(f"--{prefix}{name}:{pair[side]};" for prefix, table in named.items() for name, pair in table.items())
        for side in (0, 1)
    ]
    instances = "".join(f"--instance-{index}:{colour};" for index, colour in enumerate(INSTANCES))
    return (
        f":root{{color-scheme:light dark;{instances}--instances:{len(INSTANCES)};{sides[0]}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not(.light){{{sides[1]}}}}}\n"
    )
