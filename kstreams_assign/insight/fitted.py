"""A picture that is repeated in place on a terminal: what does not fit is left out at its end, and counted."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Fitted:
    """Draw a picture within the terminal's height."""

    picture: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines that fit; the last one says how many do not."""
        lines = console.render_lines(self.picture, options.update(height=None), pad=False)
        room = options.size.height
        if len(lines) > room:
            left_out = len(lines) - (room - 1)
            note = Text(f"{left_out} more lines: make the terminal higher, or leave out --watch", no_wrap=True)
            lines = [*lines[: room - 1], *console.render_lines(note, options.update(height=None), pad=False)]
        for line in lines:
            yield from line
            yield Segment.line()
