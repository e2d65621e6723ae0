"""What an application's subtopologies read, write and keep: declared, described in Java's words, and what follows for topics.

Pure: names and numbers. What must not live here: asking a broker, tasks and their members.
"""

from __future__ import annotations
