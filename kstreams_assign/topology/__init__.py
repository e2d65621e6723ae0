"""Subtopologies: the topics and stores of each, as declared in Python, in TOML or by Java, and their internal topics.

Pure: names and numbers. Calls to a broker, tasks and members do not belong here.
"""

from __future__ import annotations
