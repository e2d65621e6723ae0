"""An application on the broker, and the check of its events, as for the worker."""

from tests.worker.conftest import _only_described_events, app

__all__ = ["_only_described_events", "app"]
