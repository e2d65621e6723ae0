"""A commit's metadata compared with that of Kafka Streams 4.3.1's ``TopicPartitionMetadata``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.wire.offset_metadata import OffsetMetadata, read_offset_metadata, write_offset_metadata

WRITTEN_BY_JAVA = {
    "Av//////////": OffsetMetadata(None),
    "AgAAAAAAAAAA": OffsetMetadata(0),
    "AgAAAYvP5Wh7": OffsetMetadata(1_700_000_000_123),
    "An//////////AAAAAQAAAAFhAAAAAAAAAAE=": OffsetMetadata(
        2**63 - 1, b"\x00\x00\x00\x01\x00\x00\x00\x01a\x00\x00\x00\x00\x00\x00\x00\x01"
    ),
    "AgAAAYvP5Wh7AAAAAgAAABxLU1RSRUFNLUFHR1JFR0FURS0wMDAwMDAwMDAzAAABi8/lZBgAAAACw6n//////////w==": OffsetMetadata(
        1_700_000_000_123,
        b"\x00\x00\x00\x02\x00\x00\x00\x1cKSTREAM-AGGREGATE-0000000003\x00\x00\x01\x8b\xcf\xe5d\x18"
        b"\x00\x00\x00\x02\xc3\xa9" + b"\xff" * 8,
    ),
}
"""With two entries: Java's map has no order that counts."""


@pytest.mark.parametrize("text", WRITTEN_BY_JAVA)
def test_javas_metadata_is_read_and_written_back_byte_for_byte(text: str) -> None:
    assert read_offset_metadata(text) == WRITTEN_BY_JAVA[text]
    assert write_offset_metadata(WRITTEN_BY_JAVA[text]) == text


def test_version_1_has_only_a_time() -> None:
    assert read_offset_metadata("AQAAAYvPkuB7") == OffsetMetadata(1_699_994_591_355)
    assert read_offset_metadata("AQAAAYvPkuB7AAAA") == OffsetMetadata(1_699_994_591_355)


@pytest.mark.parametrize("text", ["", "xyz", "AgAA", "AwAAAYvPkuB7", "not base64!", "schön", "AgAAAYvP5Wh7\x00"])
def test_foreign_text_and_later_versions_yield_an_empty_value(text: str) -> None:
    assert read_offset_metadata(text) == OffsetMetadata()


@given(time_ms=st.none() | st.integers(0, 2**63 - 1), processor=st.binary(max_size=40))
def test_processor_metadata_is_passed_on_unchanged(time_ms: int | None, processor: bytes) -> None:
    metadata = OffsetMetadata(time_ms, processor)
    assert read_offset_metadata(write_offset_metadata(metadata)) == metadata


@given(st.text(max_size=40))
def test_any_text_is_accepted(text: str) -> None:
    read_offset_metadata(text)
