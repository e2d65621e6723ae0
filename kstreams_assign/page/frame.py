"""A self-contained page: everything inline, nothing fetched, no script but its own. Knows nothing of its content.

The browser enforces that: the page's Content-Security-Policy allows no request at all, and only the scripts whose
hashes it names, so a name from the data could not run even if it were written unescaped.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Container, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from kstreams_assign.page.palette import style_sheet


class Html(str):
    """Text that is markup already. Everything else is escaped."""

    __slots__ = ()


def tag(name: str, *content: str, **attributes: str | bool | None) -> Html:
    """``<name attributes>content</name>``, escaped unless the content is ``Html``.

    ``class_`` and ``for_`` lose their last character, ``data_row`` becomes ``data-row``; True is an attribute without
    a value, False and None are left out.
    """
    written = "".join(
        f" {key.removesuffix('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>{markup(*content)}</{name}>")


def markup(*content: str) -> Html:
    """All content in a row, escaped unless it is ``Html``."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in content))


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str,
    numbers: Container[int] = (),
    class_: str = "",
    **attributes: str | bool | None,
) -> Html:
    """A table in a box that scrolls by itself; on a narrow screen each value stands below its head.

    ``numbers``: the columns that are aligned to the right.
    """
    sides = ["number" if column in numbers else None for column in range(len(heads))]
    head = tag(
        "thead",
        tag("tr", *(tag("th", text, scope="col", class_=side) for text, side in zip(heads, sides, strict=True))),
    )
    body = tag(
        "tbody",
        *(
            tag(
                "tr",
                *(
                    tag("td", cell, class_=side, data_label=text)
                    for cell, text, side in zip(row, heads, sides, strict=True)
                ),
            )
            for row in rows
        ),
    )
    whole = tag("table", tag("caption", caption), head, body, class_=f"stacked {class_}".strip(), **attributes)
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


@cache
def asset(name: str, room: str = __package__) -> str:
    """A style sheet or script that lies in ``assets`` of a room (a package), by default of this one."""
    return files(room).joinpath("assets", name).read_text(encoding="utf-8")


def data_block(name: str, value: Any) -> Html:
    """JSON that scripts read by its id. No character in it can end the block."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    safe = safe.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return Html(f'<script type="application/json" id="{escape(name)}">{safe}</script>\n')


def page(
    title: str, *content: str, styles: Sequence[str] = (), scripts: Sequence[str] = (), data: Sequence[Html] = ()
) -> str:
    """The whole document. ``styles`` and ``scripts`` are texts of our own (``asset``), never data."""
    sheets = "".join((style_sheet(), asset("frame.css"), *styles))
    allowed = " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts)
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; "
        f"base-uri 'none'; form-action 'none'; script-src {allowed or chr(39) + 'none' + chr(39)}"
    )
    head = markup(
        Html('<meta charset="utf-8">\n'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">\n'),
        Html('<link rel="icon" href="data:,">\n'),
        tag("title", title),
        Html(f"\n<style>{sheets}</style>\n"),
    )
    blocks = Html("".join(f"<script>{text}</script>\n" for text in scripts))
    body = tag("body", tag("main", *content), Html("\n"), *data, blocks)
    return f'<!doctype html>\n<html lang="en">\n{tag("head", head)}\n{body}\n</html>\n'
