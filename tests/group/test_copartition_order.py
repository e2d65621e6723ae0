"""The order of joined topics is Java's: ``InternalTopologyBuilder.copartitionGroups`` returns these texts (4.3.1).

Topics are separated by a space, groups by a semicolon.
"""

from __future__ import annotations

import pytest

from kstreams_assign.group.copartition_order import java_copartition_groups

TWELVE = "s-00 s-01 s-02 s-03 s-04 s-05 s-06 s-07 s-08 s-09 s-10 s-11"
IN_JAVA = {
    "prices purchases": "purchases prices",
    "clicks users; prices purchases": "purchases prices; clicks users",
    "orders customers app-joined-repartition app-words-repartition": (
        "app-words-repartition app-joined-repartition orders customers"
    ),
    "l-0 r-0; l-1 r-1; l-2 r-2; l-3 r-3; l-4 r-4; l-5 r-5; l-6 r-6; l-7 r-7": (
        "l-1 r-1; r-0 l-0; l-3 r-3; l-2 r-2; l-5 r-5; l-4 r-4; l-7 r-7; l-6 r-6"
    ),
    TWELVE: "s-06 s-07 s-08 s-09 s-02 s-03 s-04 s-05 s-10 s-00 s-11 s-01",
    f"{TWELVE} s-12": "s-02 s-03 s-04 s-05 s-10 s-00 s-11 s-01 s-12 s-06 s-07 s-08 s-09",
    f"{TWELVE} s-12 s-13 s-14 s-15; t-0 t-1 t-2 t-3 t-4 t-5 t-6 t-7 t-8 t-9": (
        "t-9 t-0 t-2 t-1 t-4 t-3 t-6 t-5 t-8 t-7; "
        "s-02 s-13 s-03 s-14 s-04 s-15 s-05 s-10 s-00 s-11 s-01 s-12 s-06 s-07 s-08 s-09"
    ),
}


def groups(text: str) -> list[list[str]]:
    return [group.split() for group in text.split(";")]


@pytest.mark.parametrize(("declared", "expected"), IN_JAVA.items())
def test_groups_and_topics_are_in_the_order_of_javas_hash_sets(declared: str, expected: str) -> None:
    assert java_copartition_groups(groups(declared)) == groups(expected)


def test_neither_the_order_of_groups_nor_that_of_topics_in_different_buckets_matters() -> None:
    declared = "users clicks; purchases prices"
    assert java_copartition_groups(groups(declared)) == groups("purchases prices; clicks users")


@pytest.mark.parametrize("same_hash", ["Aa BB", "BB Aa"])
def test_topics_of_one_bucket_keep_the_order_in_which_they_are_declared(same_hash: str) -> None:
    assert java_copartition_groups(groups(same_hash)) == groups(same_hash)


@pytest.mark.parametrize(
    ("declared", "expected"), [("a b; b c; d e", "a b c; d e"), ("a b; c d; b c", "a b c; c d"), ("a a; b b", "a; b")]
)
def test_groups_that_share_a_topic_are_one_as_in_java(declared: str, expected: str) -> None:
    """A group that joins two earlier ones becomes a part of the first only."""
    assert java_copartition_groups(groups(declared)) == groups(expected)


def test_no_group_declares_none() -> None:
    assert java_copartition_groups([]) == java_copartition_groups([[]]) == []
