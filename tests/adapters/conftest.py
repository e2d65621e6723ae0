"""No secret of one test is hidden in the log of the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kstreams_assign.adapters import log_secrets


@pytest.fixture(autouse=True)
def secrets_of_this_test_alone() -> Iterator[None]:
    before = log_secrets._filter.secrets
    yield
    log_secrets._filter.secrets = before
