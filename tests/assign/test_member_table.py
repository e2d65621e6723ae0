"""The order in which a coordinator's table gives its members.

``golden_member_table.jsonl`` holds what ``TimelineHashMap`` of Kafka 4.3.1 answered: ids that were put ("+id") and
removed ("-id") in turn, and the iteration over the rest (sub-command ``streams-group-order`` of ``bench.java_peer``).
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from kstreams_assign.assign.java.member_table import MemberTable, possible_tables, slot_of
from tests.peer.streams_problems import member_id

CASES = [json.loads(line) for line in Path(__file__).with_name("golden_member_table.jsonl").read_text().splitlines()]


def filled(steps):
    table = MemberTable()
    for step in steps:
        (table.put if step[0] == "+" else table.remove)(step[1:])
    return table


def test_members_are_iterated_as_kafka_iterated_them():
    assert max(len(case["order"]) for case in CASES) > 20
    for case in CASES:
        assert filled(case["steps"]).order() == case["order"]


def test_the_tables_that_an_order_allows_include_the_real_one():
    several = 0
    for case in CASES:
        real = filled(case["steps"])
        tables = possible_tables(case["order"])
        assert real.slots in [table.slots for table in tables]
        several += len(tables) > 1
    assert several


def test_a_member_that_joins_comes_where_one_of_the_possible_tables_puts_it():
    random = Random(11)
    for case in CASES:
        real = filled(case["steps"])
        newcomer = member_id(random) + "-new"
        tables = possible_tables(real.order())
        for table in (real, *tables):
            table.put(newcomer)
        assert real.order() in [table.order() for table in tables]


def test_no_table_gives_its_members_against_their_slots():
    first, second = sorted(["member-a", "member-b"], key=lambda each: slot_of(each, 2**10))
    assert slot_of(first, 2) != slot_of(second, 2)
    assert possible_tables([first, second])
    assert not possible_tables([second, first])


def test_a_copy_is_a_table_of_its_own():
    table = filled(["+a", "+b", "+c"])
    copy = table.copy()
    copy.remove("b")
    assert sorted(table.order()) == ["a", "b", "c"]
    assert (copy.slots, len(copy.order())) == (table.slots, 2)
