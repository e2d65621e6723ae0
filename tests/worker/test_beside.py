"""A commit's steps beside a call of the user's function: when they are taken, and what becomes of their errors."""

from __future__ import annotations

import threading

import pytest

from kstreams_assign.worker.beside import AFTER_S, BesideCalls

PATIENCE_S = 60


class Steps:
    """Counts the requests to go on, and fails when a test asks for it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.taken = threading.Event()

    def advance(self) -> None:
        self.taken.set()
        if self.error is not None:
            raise self.error


@pytest.fixture
def beside(request):
    made = BesideCalls(request.param.advance)
    made.steps = request.param
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("beside", [Steps()], indirect=True)
def test_steps_are_taken_while_a_call_takes_long_and_at_no_other_time(beside):
    for _ in range(20):
        with beside.calling():
            pass
    assert not beside.steps.taken.wait(AFTER_S * 3)
    with beside.calling():
        assert beside.steps.taken.wait(PATIENCE_S)


@pytest.mark.parametrize("beside", [Steps(KeyError("the commit's"))], indirect=True)
def test_an_error_of_a_step_comes_out_of_the_call(beside):
    with pytest.raises(KeyError, match="the commit's"), beside.calling():
        assert beside.steps.taken.wait(PATIENCE_S)
    with beside.calling():
        pass


@pytest.mark.parametrize("beside", [Steps(KeyError("the commit's"))], indirect=True)
def test_an_error_of_a_step_counts_although_the_function_fails_too(beside):
    def fail_later():
        assert beside.steps.taken.wait(PATIENCE_S)
        raise ValueError("the function's")

    with pytest.raises(KeyError, match="the commit's") as raised, beside.calling():
        fail_later()
    assert isinstance(raised.value.__context__, ValueError)
