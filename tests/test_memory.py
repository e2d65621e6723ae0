"""How a limit is divided: within the limit, at least the least of each part, and what was asked for as it was."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.allowed_values import MEMORY
from kstreams_assign.config import Config
from kstreams_assign.errors import ConfigError
from kstreams_assign.memory import FILLED, FIXED_BYTES, MEMORY_SETTINGS, Memory, divide_memory

MIB = 1 << 20
COPIES = dict(zip(MEMORY_SETTINGS, (1, 1, 1, 2, 2, 3), strict=True))
LEAST = dict(zip(MEMORY_SETTINGS, (8 * MIB, 16 * MIB, MIB, 4 * MIB, 4 * MIB, 4 * MIB), strict=True))
NEEDED = {"application_id": "app", "bootstrap_servers": "localhost:9092"}
sizes = st.integers(MIB, 2 << 30)
asked = st.dictionaries(st.sampled_from(MEMORY_SETTINGS), sizes)


def filled(memory: Memory) -> int:
    return sum(getattr(memory, key) * copies for key, copies in COPIES.items())


@given(limit=st.integers(MIB, 64 << 30), asked=asked)
def test_the_parts_fit_into_the_limit_or_the_error_names_the_least_limit(limit: int, asked: dict[str, int]) -> None:
    try:
        memory = divide_memory(limit, asked)
    except ConfigError as refused:
        least = int(re.search(r"must be at least (\d+)", str(refused))[1])
        assert least > limit
        divide_memory(least, asked)
        with pytest.raises(ConfigError):
            divide_memory(least - 2 * MIB, asked)
        return
    assert filled(memory) + FIXED_BYTES <= limit * FILLED + 1
    assert memory.limited
    for key in MEMORY_SETTINGS:
        assert getattr(memory, key) == asked.get(key, getattr(memory, key))
        assert getattr(memory, key) >= (1 if key in asked else LEAST[key])


@given(asked=asked)
def test_without_a_limit_each_part_that_is_not_set_has_its_default(asked: dict[str, int]) -> None:
    memory = divide_memory(None, asked)
    assert not memory.limited
    plain = divide_memory(None, {})
    assert all(getattr(memory, key) == asked.get(key, getattr(plain, key)) for key in MEMORY_SETTINGS)
    assert plain.most_bytes == int(1112.5 * MIB)


def test_a_buffer_gets_no_more_than_its_default_and_rocksdb_gets_the_rest() -> None:
    memory, plain = divide_memory(4 << 30, {}), divide_memory(None, {})
    assert memory.input_buffer_max_bytes == plain.input_buffer_max_bytes
    assert memory.output_buffer_max_bytes == plain.output_buffer_max_bytes
    assert memory.rocksdb_block_cache_bytes > 1 << 30
    assert (4 << 30) - MIB < memory.most_bytes <= 4 << 30


def test_a_limit_that_is_too_low_is_refused_when_the_settings_are_made() -> None:
    with pytest.raises(ConfigError, match=r"^memory_limit_bytes = 104857600: must be at least 243269632 \(232 MiB\)$"):
        Config(**NEEDED, memory_limit_bytes=100 * MIB)
    with pytest.raises(ConfigError, match=r"MiB\) with rocksdb_write_buffers_bytes = 536870912$"):
        Config(**NEEDED, memory_limit_bytes=512 * MIB, rocksdb_write_buffers_bytes=512 * MIB)
    with pytest.raises(ConfigError, match=r"^memory_limit_bytes = '512m': must be a whole number >= 1048576"):
        Config(**NEEDED, memory_limit_bytes="512m")


@pytest.mark.parametrize("key", ["memory_limit_bytes", "input_buffer_max_bytes", "restore_buffer_max_bytes"])
def test_the_size_of_a_queue_has_one_setting(key: str) -> None:
    client = {"queued.max.messages.kbytes": "1000"}
    with pytest.raises(ConfigError, match=rf"^client: queued\.max\.messages\.kbytes: remove it, as {key} = 536870912"):
        Config(**NEEDED, client=client, **{key: 512 * MIB})
    assert Config(**NEEDED, client=client, output_buffer_max_bytes=8 * MIB).memory.output_buffer_max_bytes == 8 * MIB


def test_a_batch_has_at_most_half_of_a_small_buffer() -> None:
    assert Config(**NEEDED).batch_bytes_max == 16 * MIB
    assert Config(**NEEDED, output_buffer_max_bytes=8 * MIB).batch_bytes_max == 4 * MIB
    assert Config(**NEEDED, input_buffer_max_bytes=6 * MIB, output_buffer_max_bytes=8 * MIB).batch_bytes_max == 3 * MIB
    assert Config(**NEEDED, max_poll_bytes=1000, output_buffer_max_bytes=8 * MIB).batch_bytes_max == 1000


def test_each_part_has_a_setting_with_a_range() -> None:
    assert [*MEMORY] == ["memory_limit_bytes", *MEMORY_SETTINGS]
