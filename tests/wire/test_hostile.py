"""No matter what bytes a peer sends, they are read or refused with DecodeError; never another error, never much memory.

`PYKAFKA4_FUZZ=n` makes n times as many inputs from a new seed. What failed once is kept in `corpus/` and read on every run.
"""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from wire_samples import BUFFERS, CORPUS, every_version, messages, mutations, name_of, sample, survives

from pykafka4.errors import DecodeError, RecordTooLarge
from pykafka4.wire.batch import batches, records_of
from pykafka4.wire.compression import decompress
from pykafka4.wire.frame import correlation_of, decode_request, decode_response, encode_request, encode_response
from pykafka4.wire.messages_cluster import ApiVersionsRequest, MetadataResponse
from pykafka4.wire.schema import DATA, Data, Message, Request, decode, decode_data, encode

MIB = 1 << 20
ROUNDS = int(os.environ.get("PYKAFKA4_FUZZ", "0")) or 1
SEED = os.urandom(8).hex() if "PYKAFKA4_FUZZ" in os.environ else "fixed"
LENGTHS = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x00\x0f\x42\x40",
    b"\xff\xff\xff\xff\x0f",
    b"\xc1\x84\x3d",
    b"\x7f\xff",
    b"\x80\x00",
    b"\x00",
)


def randomness(*parts: Any) -> random.Random:
    return random.Random(f"{SEED}{parts}")


@contextmanager
def little_memory(limit: int = 64 * MIB) -> Iterator[None]:
    tracemalloc.start(1)
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= limit


def through(buffer: Callable[[bytes], Any], cls: type[Message], version: int) -> Callable[[bytes], Any]:
    return lambda data: decode(cls, version, buffer(data))


def hostile(valid: bytes, rng: random.Random, count: int) -> Iterator[bytes]:
    """Damaged, cut, invented."""
    yield from mutations(valid, rng, count)
    yield from (valid[:end] for end in (range(len(valid)) if len(valid) < 60 else rng.sample(range(len(valid)), 60)))
    yield from (rng.randbytes(rng.randrange(80)) for _ in range(count // 4))
    yield from (valid[:at] + length + valid[at:] for length in LENGTHS for at in rng.sample(range(len(valid) + 1), min(3, len(valid))))


@pytest.mark.parametrize(("cls", "version"), every_version(), ids=name_of)
def test_any_bytes_are_read_or_refused(cls: type[Message], version: int) -> None:
    rng = randomness(cls.__name__, version)
    valid = b"".join(map(bytes, encode(sample(cls, version, rng), version)))
    for data in hostile(valid, rng, 60 * ROUNDS):
        survives(through(rng.choice(list(BUFFERS.values())), cls, version), data, f"{cls.__name__}-v{version}")


@pytest.mark.parametrize("cls", [cls for cls in messages() if issubclass(cls, Request)], ids=name_of)
def test_any_frame_is_read_or_refused(cls: Any) -> None:
    rng = randomness("frame", cls.__name__)
    for version in {cls.versions.lo, cls.versions.hi, cls.flexible.lo}:
        if version not in cls.versions:
            continue
        sent = b"".join(map(bytes, encode_request(sample(cls, version, rng), version, 5, "me")))[4:]
        answered = b"".join(map(bytes, encode_response(sample(cls.response, version, rng), version, 5)))[4:]
        for data in hostile(sent, rng, 20 * ROUNDS):
            survives(decode_request, data, "request")
        for data in hostile(answered, rng, 20 * ROUNDS):
            survives(partial(decode_response, cls, version), data, f"frame-{cls.__name__}-v{version}")


@pytest.mark.parametrize("cls", DATA.values(), ids=name_of)
def test_any_data_is_read_or_refused(cls: type[Data]) -> None:
    rng = randomness("data", cls.__name__)
    for version in range(cls.versions.hi + 3):
        valid = version.to_bytes(2, "big") + b"".join(
            map(bytes, encode(sample(cls, min(version, cls.versions.hi), rng), min(version, cls.versions.hi)))
        )
        for data in hostile(valid, rng, 40 * ROUNDS):
            survives(lambda data: decode_data(cls, data), data, f"data-{cls.__name__}")


# -- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", messages(), ids=name_of)
def test_a_small_frame_never_costs_much_memory(cls: type[Message]) -> None:
    """Lengths that claim the world, at every place of a frame, with enough bytes behind them to pass a careless check."""
    with little_memory():
        for version in {cls.versions.lo, cls.versions.hi}:
            rng = randomness("memory", cls.__name__, version)
            valid = b"".join(map(bytes, encode(sample(cls, version, rng), version)))
            for length in LENGTHS:
                for at in rng.sample(range(len(valid) + 1), min(len(valid), 15)):
                    data = valid[:at] + length + valid[at:] + bytes(2000)
                    survives(partial(decode, cls, version), data, f"{cls.__name__}-v{version}")


def test_a_million_claimed_elements_cost_nothing_when_the_bytes_are_not_there() -> None:
    for data in (b"\0\0\0\0" + b"\x00\x0f\x42\x40" + bytes(100), b"\0\0\0\0" + b"\x7f\xff\xff\xff" + bytes(100)):
        with little_memory(MIB), pytest.raises(DecodeError, match="elements"):
            decode(MetadataResponse, 4, data)
    enough = b"\0\0\0\0" + b"\x81\x89\x7a" + bytes(3_000_000)
    with little_memory(MIB), pytest.raises(DecodeError, match="2000000 elements; at most 1000000 are read"):
        decode(MetadataResponse, 9, enough)


def test_the_memory_meter_would_notice() -> None:
    with pytest.raises(AssertionError), little_memory(MIB):
        bytearray(2 * MIB)


# -- inputs that are kept ------------------------------------------------------------------------


def reader(path: Path) -> Callable[[bytes], Any]:
    """Who reads a kept input, by its name."""
    kind, *rest = path.stem.split("-")
    by_name = {cls.__name__: cls for cls in messages()}
    if kind == "batch":
        return lambda data: [records_of(batch, 10**6) for batch in batches(data)]
    if kind == "codec":
        return lambda data: decompress(int(rest[0]), data, 5000)
    if kind == "request":
        return decode_request
    if kind == "frame":
        request: Any = by_name[rest[0]]
        return lambda data: (correlation_of(data), decode_response(request, int(rest[1][1:]), data))
    if kind == "data":
        kept: Any = by_name[rest[0]]
        return lambda data: decode_data(kept, data)
    return lambda data: decode(by_name[kind], int(rest[0][1:]), data)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.bin")), ids=lambda path: path.stem)
def test_kept_inputs_are_read_or_refused(path: Path) -> None:
    with little_memory():
        try:
            reader(path)(path.read_bytes())
        except (DecodeError, RecordTooLarge):
            pass


def test_there_are_kept_inputs_for_every_reader() -> None:
    kinds = {path.stem.split("-")[0] for path in CORPUS.glob("*.bin")}
    assert {"batch", "codec", "request", "frame", "data", "FetchResponse", "MetadataResponse"} <= kinds
    assert ApiVersionsRequest.response.__name__ in kinds


def test_what_fails_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wire_samples.CORPUS", tmp_path / "corpus")

    def broken(data: bytes) -> None:
        raise KeyError(data)

    with pytest.raises(KeyError):
        survives(broken, b"abc", "batch")
    (kept,) = (tmp_path / "corpus").glob("batch-*.bin")
    assert kept.read_bytes() == b"abc"
