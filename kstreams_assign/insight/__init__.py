"""The shell around ``observe``: fetches a group from its brokers or a file, and shows what it means.

What lives here: asking, in which order and with which patience, and the commands. What must not: judgement; whatever is
said about a group is worked out in ``observe``.
"""

from __future__ import annotations
