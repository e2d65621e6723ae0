"""``python -m kstreams_assign`` is ``kstreams-assign``."""

from __future__ import annotations

from kstreams_assign.cli import main

if __name__ == "__main__":
    main()
