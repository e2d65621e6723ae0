"""Leader, joiner, leaver: every combination of Java and Python ends balanced, with every input counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.mixed.matrix import CASES, IN_TURN, WAITED, Case, Matrix


@pytest.fixture(scope="module")
def matrix(
    broker: str,
    java_peer: object,  # noqa: ARG001  # says whether Java can be compiled
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Matrix]:
    """Start all cases of this run, several at a time; each test awaits its own."""
    chosen = {item.name for item in request.session.items if item.path == request.path}
    cases = [case for case in IN_TURN if f"{test_nothing_is_lost_and_the_group_is_balanced.__name__}[{case}]" in chosen]
    with closing(Matrix(broker, tmp_path_factory.mktemp("matrix"), cases)) as under_way:
        yield under_way


@pytest.mark.timeout(600)  # each wait in a case has its own limit; the first test also waits for the others' start
@pytest.mark.parametrize("case", [*IN_TURN[len(WAITED) :], *WAITED], ids=str)
def test_nothing_is_lost_and_the_group_is_balanced(matrix: Matrix, case: Case) -> None:
    outcome = matrix.outcome(case)
    assert outcome.led_by_leader
    assert (outcome.counts.lost, outcome.counts.went_back) == (0, 0), outcome
    assert case.by == "kill" or outcome.counts.twice == 0, outcome


def test_the_matrix_has_every_combination() -> None:
    assert len(set(CASES)) == 2**5
    assert set(WAITED) <= set(CASES)
    assert set(IN_TURN) == set(CASES)
