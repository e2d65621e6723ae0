"""Which open transactions hang, by Kafka's states, epochs and partitions; how they were decided; what waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.model import TopicPartition
from kstreams_assign.observe.transactions import (
    Coordinated,
    Decision,
    ExaminedTransaction,
    OpenTransaction,
    decided,
    in_words,
    still_open,
)
from kstreams_assign.wire.transaction_log import LoggedTransaction

PARTITION, OTHER_PARTITION = TopicPartition("log", 0), TopicPartition("log", 1)
OPEN = OpenTransaction(PARTITION, producer_id=7, producer_epoch=3, coordinator_epoch=0, start_offset=40)
PROCESS = "6f1b3c1e-8a53-4c0e-9a3e-3f6d3a1c2b11"
NAME = f"app-{PROCESS}"
KNOWN = Coordinated(NAME, "Ongoing", 7, 3, 60_000, frozenset({PARTITION, OTHER_PARTITION}))


@pytest.mark.parametrize(
    ("state", "epoch", "partitions", "hangs"),
    [
        ("Ongoing", 3, {PARTITION, OTHER_PARTITION}, False),
        ("Ongoing", 3, {OTHER_PARTITION}, True),  # the next one, which does not write here
        ("Ongoing", 4, {PARTITION}, False),  # fenced, and about to be aborted: the epoch is raised first
        ("PrepareCommit", 3, {PARTITION}, False),
        ("PrepareCommit", 4, {PARTITION}, False),  # KIP-890: the end has the next epoch already
        ("PrepareAbort", 4, {PARTITION, OTHER_PARTITION}, False),
        ("PrepareEpochFence", 4, {PARTITION}, False),
        ("PrepareCommit", 3, {OTHER_PARTITION}, True),  # its marker here counts as written
        ("CompleteCommit", 3, set(), True),
        ("CompleteAbort", 4, {PARTITION}, True),
        ("Empty", 5, set(), True),  # its producer has started over
        ("Dead", 3, set(), True),
    ],
)
def test_what_its_coordinator_is_not_about_to_end_hangs(state, epoch, partitions, hangs):
    known = replace(KNOWN, state=state, producer_epoch=epoch, partitions=frozenset(partitions))
    assert ExaminedTransaction(OPEN, known).hanging is hangs
    assert ("it hangs, and does not end by itself" in in_words(ExaminedTransaction(OPEN, known))) is hangs
    assert ExaminedTransaction(OPEN, known).in_vain is hangs


def test_nothing_is_said_to_hang_that_nobody_knows():
    """A principal that may not describe transactional ids sees none."""
    transaction = ExaminedTransaction(OPEN, None)
    assert not transaction.hanging
    assert transaction.in_vain
    assert in_words(transaction) == (
        "log-0 has an open transaction from offset 40 on, of producer 7, which no coordinator that may be asked knows"
    )


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("Ongoing", f"of {NAME}: it ends with its next commit, or 60 s after it began"),
        ("PrepareCommit", f"of {NAME}, which its coordinator is about to commit"),
        ("PrepareAbort", f"of {NAME}, which its coordinator is about to abort"),
        (
            "CompleteCommit",
            f"of {NAME}, which its coordinator believes to have ended (CompleteCommit); it hangs",
        ),
    ],
)
def test_words_tell_whose_it_is_and_what_comes(state, words):
    assert words in in_words(ExaminedTransaction(OPEN, replace(KNOWN, state=state)))


def test_one_that_its_producer_has_left_behind_is_told_so():
    """Its next transaction is under way, and does not write here."""
    assert "has left behind for the producer's next one; it hangs" in in_words(
        ExaminedTransaction(OPEN, replace(KNOWN, partitions=frozenset({OTHER_PARTITION})))
    )


def test_what_ended_or_began_while_its_coordinator_was_asked_does_not_count():
    later, other = replace(OPEN, start_offset=50), replace(OPEN, partition=OTHER_PARTITION)
    now = replace(other, producer_epoch=9)
    assert still_open([OPEN, other], [later, now]) == [now]


@pytest.mark.parametrize(
    ("transactional_id", "owner"),
    [
        (f"app-{PROCESS}", "app"),
        (f"app-{PROCESS}-3", "app"),  # a thread of a Java process
        ("app-0_12", "app"),  # a task of Java's first exactly-once
        ("app-sales__0_12", "app"),
        ("app-dead-letters", "app"),
        (f"app-eu-{PROCESS}", "app-eu"),
        (f"app.eu-{PROCESS}", "app.eu"),
        ("app-eu-0_12", "app-eu"),
        ("app-of-another-kind", None),
        ("app", None),
        ("app-", None),
        (f"app-{PROCESS}-3-4", None),
    ],
)
def test_whose_it_is_shows_in_its_transactional_id(transactional_id, owner):
    """The name of one application may begin with that of another."""
    examined = ExaminedTransaction(OPEN, replace(KNOWN, transactional_id=transactional_id))
    applications = ("ap", "app", "app-eu", "app.eu", "other")
    assert [each for each in applications if examined.of(each)] == ([owner] if owner else [])


def test_it_is_of_no_application_if_no_coordinator_knows_its_producer():
    assert not ExaminedTransaction(OPEN, None).of("app")


def step(state, epoch=3, partitions=(PARTITION,), producer=7):
    return LoggedTransaction(state, producer, epoch, frozenset(partitions))


@pytest.mark.parametrize(
    ("log", "decision"),
    [
        ([step("Ongoing"), step("PrepareCommit"), step("CompleteCommit")], Decision.COMMIT),
        ([step("PrepareCommit"), step("PrepareAbort", 4)], Decision.ABORT),  # the last one that names the partition
        ([step("PrepareAbort"), step("PrepareCommit", 3, [OTHER_PARTITION])], Decision.ABORT),
        ([step("PrepareEpochFence", 4)], Decision.ABORT),
        ([step("PrepareCommit", 2)], None),  # of before this producer's epoch: its own was compacted away
        ([step("PrepareCommit", producer=8)], None),
        ([step("Ongoing"), step("CompleteCommit")], None),
        (
            [step("PrepareCommit"), step("CompleteCommit"), step("Ongoing")],
            None,
        ),  # nothing is decided about the last one
        ([], None),
    ],
)
def test_how_it_was_decided_stands_in_its_coordinators_log(log, decision):
    assert decided(OPEN, log) is decision
