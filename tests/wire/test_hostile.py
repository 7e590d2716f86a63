"""No matter what bytes a peer sends, they are read or refused with DecodeError; never another error, never much memory.

What failed once is kept in `corpus/` and read on every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pykafka4.errors import DecodeError, RecordTooLarge
from pykafka4.wire.protocol.frame import correlation_of, decode_request, decode_response, encode_request, encode_response
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, MetadataResponse
from pykafka4.wire.protocol.schema import DATA, Data, Message, Request, decode, decode_data, encode
from pykafka4.wire.records.batch import batches, records_of
from pykafka4.wire.records.compression import decompress
from tests.wire.hostile_bytes import hostile, search
from tests.wire.memory_meter import MIB, linux, peak_memory
from tests.wire.wire_samples import BUFFERS, CORPUS, every_version, messages, name_of, sample

SAMPLES = 3


def samples(cls: Any, version: int) -> list[Any]:
    return [sample(cls, version, random.Random(f"{cls.__name__} {version} {n}")) for n in range(SAMPLES)]


def joined(buffers: Any) -> bytes:
    return b"".join(map(bytes, buffers))


@pytest.mark.parametrize(("cls", "version"), every_version(), ids=name_of)
def test_any_bytes_are_read_or_refused(cls: type[Message], version: int) -> None:
    buffers = list(BUFFERS.values())
    valid = [joined(encode(message, version)) for message in samples(cls, version)]
    search(
        hostile(*valid), lambda data: decode(cls, version, buffers[len(data) % len(buffers)](data)), f"{cls.__name__}-v{version}", many=1
    )


@pytest.mark.parametrize("cls", [cls for cls in messages() if issubclass(cls, Request)], ids=name_of)
def test_any_frame_is_read_or_refused(cls: Any) -> None:
    for version in {cls.versions.lo, cls.versions.hi, cls.flexible.lo} & set(range(cls.versions.lo, cls.versions.hi + 1)):
        sent = [joined(encode_request(message, version, 5, "me"))[4:] for message in samples(cls, version)]
        answered = [joined(encode_response(message, version, 5))[4:] for message in samples(cls.response, version)]
        search(hostile(*sent), decode_request, "request", many=1)
        search(hostile(*answered), partial(decode_response, cls, version), f"frame-{cls.__name__}-v{version}", many=1)


@pytest.mark.parametrize("cls", DATA.values(), ids=name_of)
def test_any_data_is_read_or_refused(cls: type[Data]) -> None:
    for version in range(cls.versions.hi + 3):
        known = min(version, cls.versions.hi)
        valid = [version.to_bytes(2, "big") + joined(encode(message, known)) for message in samples(cls, known)]
        search(hostile(*valid), partial(decode_data, cls), f"data-{cls.__name__}")


# -- memory; what a large frame may become is in `test_weight` ------------------------------------


@linux
def test_a_million_claimed_elements_cost_nothing_when_the_bytes_are_not_there() -> None:
    for data in (b"\0\0\0\0" + b"\x00\x0f\x42\x40" + bytes(100), b"\0\0\0\0" + b"\x7f\xff\xff\xff" + bytes(100)):
        with peak_memory(MIB), pytest.raises(DecodeError, match="an array of length"):
            decode(MetadataResponse, 4, data)
    enough = b"\0\0\0\0" + b"\x81\x89\x7a" + bytes(3_000_000)
    with peak_memory(MIB), pytest.raises(DecodeError, match="an array of length 2000000; the limit is 1000000"):
        decode(MetadataResponse, 9, enough)


@linux
def test_the_memory_meter_would_notice() -> None:
    with pytest.raises(AssertionError):
        search(hostile(b"abc"), lambda data: b"\1" * (65 * MIB) * (len(data) % 2), "never")


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
    with peak_memory():
        try:
            reader(path)(path.read_bytes())
        except (DecodeError, RecordTooLarge):
            pass


def test_there_are_kept_inputs_for_every_reader() -> None:
    kinds = {path.stem.split("-")[0] for path in CORPUS.glob("*.bin")}
    assert {"batch", "codec", "request", "frame", "data", "FetchResponse", "MetadataResponse"} <= kinds
    assert ApiVersionsRequest.response.__name__ in kinds


def test_what_fails_is_kept_as_small_as_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.wire.hostile_bytes.CORPUS", tmp_path / "corpus")

    def broken(data: bytes) -> None:
        if b"\x7f\xff\xff\xff" in data:
            raise KeyError(data)

    with pytest.raises(KeyError):
        search(hostile(bytes(50)), broken, "batch", many=60)
    (kept,) = (tmp_path / "corpus").glob("batch-*.bin")
    assert len(kept.read_bytes()) <= 54
