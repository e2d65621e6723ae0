"""Mutated bytes against every decoder, by hand: ten million, or as many as requested. Not a part of the tests.

    python -m tests.wire.fuzz --count 10000000 --seed 7

Seeds are the golden vectors and our own values; each input is one of them, cut, padded, flipped, overwritten with
hostile numbers, or spliced with another. The run stops with exit status 1 at the first result that is neither a value
nor ``MalformedUserData``, that takes longer than a second, or that is read and does not survive a round trip. The seed
and the number of the input replay it: ``--seed S --only N``.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from uuid import UUID

from kstreams_assign.errors import ConfigError, MalformedUserData
from kstreams_assign.model import HostInfo, TaskId, TopicPartition
from kstreams_assign.wire import (
    AssignmentInfo,
    ConsumerAssignment,
    ConsumerSubscription,
    FutureSubscription,
    KipSubscription,
    OtherKey,
    decode_assignment,
    decode_consumer_assignment,
    decode_consumer_subscription,
    decode_group_metadata,
    decode_kip_assignment,
    decode_kip_subscription,
    decode_offset_commit,
    decode_offsets_key,
    decode_subscription,
    encode_assignment,
    encode_consumer_assignment,
    encode_consumer_subscription,
    encode_group_metadata,
    encode_kip_assignment,
    encode_kip_subscription,
    encode_offset_commit,
    encode_offsets_key,
    encode_subscription,
)
from tests.wire.golden import blobs, kafka_cases
from tests.wire.strategies import KIP_VERSIONS
from tests.wire.test_streams_groups import CASES, decode, encode

SECONDS_MAX = 1.0
SEED_SIZE_MAX = 1500
"""Larger seeds spend the time on the same few fields."""

HOSTILE = (
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\0\0\0\1",
    b"\0\1\0\0",
    b"\xff\xff",
    b"\x7f\xff",
)

Decode = Callable[[bytes], object]
Encode = Callable[[object], bytes]


def kinds() -> dict[str, tuple[Decode, Encode, list[bytes]]]:
    """Return, for each kind of message, how to read and write it, and readable inputs."""
    vectors = {kind: [bytes.fromhex(case["hex"]) for case in kafka_cases(kind)] for kind in KAFKA_KINDS}
    codecs = {kind: (*codec, vectors[kind]) for kind, codec in KAFKA_KINDS.items()}
    codecs["subscription"] = (decode_subscription, encode_subscription, blobs("subscription"))
    codecs["assignment"] = (decode_assignment, encode_assignment, blobs("assignment"))
    for dialect in ("kip441", "kip441-draft"):
        read, write = (
            partial(decode_kip_subscription, dialect=dialect),
            partial(encode_kip_subscription, dialect=dialect),
        )
        codecs[f"{dialect} subscription"] = (read, write, [write(value) for value in kip_values(dialect)])
        read, write = partial(decode_kip_assignment, dialect=dialect), partial(encode_kip_assignment, dialect=dialect)
        codecs[f"{dialect} assignment"] = (read, write, [write(KIP_ASSIGNMENT)])
    for case in CASES:
        codec = partial(decode, case), partial(encode, case)
        _, _, seeds = codecs.setdefault(f"{case['message']} {case['version']}", (*codec, []))
        seeds.append(bytes.fromhex(case["hex"]))
    return {
        kind: (read, write, [value for value in seeds if len(value) <= SEED_SIZE_MAX])
        for kind, (read, write, seeds) in codecs.items()
    }


KAFKA_KINDS = {
    "consumer_subscription": (decode_consumer_subscription, encode_consumer_subscription),
    "consumer_assignment": (decode_consumer_assignment, encode_consumer_assignment),
    "offsets_key": (decode_offsets_key, encode_offsets_key),
    "offset_commit": (decode_offset_commit, encode_offset_commit),
    "group_metadata": (decode_group_metadata, encode_group_metadata),
}
KIP_ASSIGNMENT = AssignmentInfo(
    4, 7, (TaskId(0, 1),), {TaskId(1, 2): (TopicPartition("t", 2),)}, {HostInfo("h", 1): (TopicPartition("t", 1),)}
)


def kip_values(dialect: str) -> list[KipSubscription]:
    tasks = {TaskId(n % 3, n): n * 1000 for n in range(20)}
    values = {
        "task_lags": tasks,
        "store_lags": {"a": 1, "b": 2},
        "prev_tasks": frozenset(tasks),
        "standby_tasks": frozenset(tasks),
    }
    return [
        KipSubscription(version, 9, UUID(int=5), "h:1", **values) for name, version in KIP_VERSIONS if name == dialect
    ]


def mutated(choose: random.Random, seeds: list[bytes]) -> bytes:
    """Return a seed after one to four changes."""
    data = bytearray(choose.choice(seeds))
    for _ in range(choose.randint(1, 4)):
        choose.choice(CHANGES)(choose, data, seeds)
    return bytes(data)


def flip(choose: random.Random, data: bytearray, _: list[bytes]) -> None:
    if data:
        at = choose.randrange(8 * len(data))
        data[at // 8] ^= 1 << at % 8


def overwrite(choose: random.Random, data: bytearray, _: list[bytes]) -> None:
    at, hostile = choose.randrange(len(data) + 1), choose.choice(HOSTILE)
    data[at : at + len(hostile)] = hostile


def number(choose: random.Random, data: bytearray, _: list[bytes]) -> None:
    at = choose.randrange(len(data) + 1)
    data[at : at + 1] = bytes([choose.choice((0, 1, 2, 0x7F, 0x80, 0xFF))])


def cut(choose: random.Random, data: bytearray, _: list[bytes]) -> None:
    del data[choose.randrange(len(data) + 1) :]


def drop(choose: random.Random, data: bytearray, _: list[bytes]) -> None:
    at = choose.randrange(len(data) + 1)
    del data[at : at + choose.randint(1, 8)]


def pad(choose: random.Random, data: bytearray, _: list[bytes]) -> None:
    at = choose.randrange(len(data) + 1)
    data[at:at] = choose.randbytes(choose.randint(1, 8))


def splice(choose: random.Random, data: bytearray, seeds: list[bytes]) -> None:
    other, at = choose.choice(seeds), choose.randrange(len(data) + 1)
    data[at:] = other[choose.randrange(len(other) + 1) :]


CHANGES = (flip, flip, overwrite, overwrite, number, number, cut, drop, pad, splice)


def judge(data: bytes, read: Decode, write: Encode) -> str:
    """Return ``refused`` or ``read``. Any other outcome is an error, which nothing catches."""
    try:
        value = read(data)
    except MalformedUserData:
        return "refused"
    if value is None or isinstance(value, FutureSubscription | OtherKey):  # None: a key of another type of record
        return "read"
    try:
        plain = read(write(value))  # without what only these bytes had: damaged trailers, invalid UTF-8
    except ConfigError:
        assert isinstance(value, ConsumerSubscription | ConsumerAssignment), "read, but cannot be written"
        return "read, of a later version"
    assert read(write(plain)) == plain, "another value after a round trip"
    return "read"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one input alone, by its number")
    options = parser.parse_args(arguments)
    codecs = kinds()
    names, verdicts, began = list(codecs), Counter[str](), time.monotonic()
    numbers = range(options.count) if options.only is None else [options.only]
    for n in numbers:
        choose = random.Random(options.seed * 1_000_000_007 + n)
        kind = names[n % len(names)]
        read, write, seeds = codecs[kind]
        data, start = mutated(choose, seeds), time.monotonic()
        verdict = ""
        try:
            verdict = judge(data, read, write)
        finally:
            if not verdict:
                print(f"--seed {options.seed} --only {n}: {kind} {data.hex()}", file=sys.stderr)
        verdicts[verdict] += 1
        if time.monotonic() - start > SECONDS_MAX:
            print(f"--seed {options.seed} --only {n}: {kind} took too long", file=sys.stderr)
            return 1
        if (n + 1) % 100_000 == 0:
            print(f"{n + 1:,} inputs, {time.monotonic() - began:.0f} s: {dict(verdicts)}", flush=True)
    print(f"done: {len(numbers):,} inputs, {dict(verdicts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
