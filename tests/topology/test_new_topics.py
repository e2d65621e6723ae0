"""Topics that a command creates: what its arguments may say."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.topology.new_topics import read_new_topics


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        (["a b:1"], "'a b' cannot be the name of a topic"),
        (["a/b:1"], "'a/b' cannot be the name of a topic"),
        (["é:1"], "'é' cannot be the name of a topic"),
        ([".:1"], "'.' cannot be the name of a topic"),
        (["..:1"], "'..' cannot be the name of a topic"),
        ([f"{'a' * 250}:1"], "cannot be the name of a topic; allowed are 1 to 249"),
        (["a\n:1"], r"'a\\n' cannot be the name of a topic"),
        ([":1"], "'' cannot be the name of a topic"),
        (["a:"], "must be NAME or NAME:PARTITIONS"),
        (["a:0"], "must be NAME or NAME:PARTITIONS"),
        (["a:-1"], "must be NAME or NAME:PARTITIONS"),
        (["a:٣"], "must be NAME or NAME:PARTITIONS"),
        (["a:" + "9" * 5000], "must be NAME or NAME:PARTITIONS"),
        (["a:1:1"], "must be NAME or NAME:PARTITIONS"),
        (["a:1\n"], "must be NAME or NAME:PARTITIONS"),
        (["a:1", "a:2"], "'a' is given more than once"),
        (["a:9999", "b:2"], "10,001 partitions in all; allowed are 10,000"),
    ],
)
def test_topics_that_no_broker_would_create_are_refused(texts: list[str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read_new_topics(texts, "--topic")


def test_topics_are_read_and_have_one_partition_where_none_is_given() -> None:
    texts = ["a.b_c-D:2", "...:10", f"{'a' * 249}:1", "words"]
    assert read_new_topics(texts, "--topic") == {"a.b_c-D": 2, "...": 10, "a" * 249: 1, "words": 1}
