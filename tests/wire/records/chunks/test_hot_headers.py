"""Headers of fetched records: checked when decoded, made when asked for, and never a way around the bound on unpacked bytes."""

from __future__ import annotations

import copy
import gc
import pickle
from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import RecordTooLarge
from pykafka4.wire.records import hot
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.compression import decompress
from tests.wire.memory_meter import traced
from tests.wire.records.hot_world import MIB, decoded, each_core
from tests.wire.records.message_sets import build_message_set

pytestmark = each_core
HEADERS = (("name", b"value"), ("", None), ("nämé", b""), ("name", b"again"))


def one(core: ModuleType, headers: Any) -> Any:
    (record,), error, _ = decoded(core, build_batch([WireRecord(value=b"v", headers=headers)]))
    assert error is None
    return record


def test_headers_are_what_was_written(core: ModuleType) -> None:
    assert one(core, HEADERS).headers == HEADERS
    assert one(core, ()).headers == ()


def test_headers_are_made_once(core: ModuleType) -> None:
    record = one(core, HEADERS)
    assert record.headers is record.headers


@pytest.mark.parametrize(
    "use",
    [
        lambda r, full: r == full and full == r and r == r,
        lambda r, full: hash(r) == hash(full),
        lambda r, full: repr(r) == repr(full),
        lambda r, full: pickle.loads(pickle.dumps(r)) == full,
        lambda r, full: copy.copy(r) == full and copy.deepcopy(r) == full,
        lambda r, full: getattr(r, "headers") == full.headers,  # noqa: B009
    ],
    ids=["equality", "hash", "repr", "pickle", "copy", "getattr"],
)
def test_every_use_of_a_record_sees_its_headers(core: ModuleType, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "Record", core.Record)  # pickles name the class by the module that exports it
    record = one(core, HEADERS)
    full = core.Record("t", 3, 0, -1, "CREATE_TIME", None, b"v", HEADERS, -1)
    assert use(record, full)
    assert record != core.Record("t", 3, 0, -1, "CREATE_TIME", None, b"v", (), -1)


def test_a_name_that_is_no_text_is_replaced_as_in_java(core: ModuleType) -> None:
    data = bytearray(build_batch([WireRecord(headers=(("ab", b"v"),))]))
    at = data.index(b"ab")
    data[at : at + 2] = b"\xff\xfe"
    assert one_of(core, resealed(data)).headers == (("\ufffd\ufffd", b"v"),)


def resealed(data: bytearray) -> bytes:
    from pykafka4.wire.records.checksum import crc32c
    from pykafka4.wire.records.layout import ATTRIBUTES, CRC

    data[CRC : CRC + 4] = crc32c(memoryview(data)[ATTRIBUTES:]).to_bytes(4, "big")
    return bytes(data)


def one_of(core: ModuleType, data: bytes) -> Any:
    (record,), error, _ = decoded(core, data)
    assert error is None
    return record


@pytest.mark.parametrize(("at", "byte"), [(0, 0x3F), (0, 0x01), (3, 0x3F), (3, 0x05)], ids=["name", "no name", "value", "size"])
def test_a_damaged_header_is_found_when_its_record_is_decoded(core: ModuleType, at: int, byte: int) -> None:
    data = bytearray(build_batch([WireRecord(headers=(("ab", b"cd"),))]))
    data[data.index(b"\x04ab\x04cd") + at] = byte
    records, error, _ = decoded(core, resealed(data))
    assert records == []
    assert "header" in str(error) or "longer than its" in str(error)


@pytest.mark.parametrize("size", [b"\x01", b"\x03", b"\x05", b"\x7f"])
def test_every_negative_size_means_no_value_as_in_java(core: ModuleType, size: bytes) -> None:
    data = bytearray(build_batch([WireRecord(headers=(("ab", None), ("cd", None)))]))
    at = data.index(b"\x04ab\x01")
    data[at + 3 : at + 4] = size
    assert one_of(core, resealed(data)).headers == (("ab", None), ("cd", None))


def test_headers_of_many_records_survive_the_collector_and_the_chunk(core: ModuleType) -> None:
    data = bytearray(build_batch([WireRecord(value=b"%d" % i, headers=(("n", b"%d" % i),)) for i in range(300)]))
    records, error, chunk = decoded(core, data)
    assert error is None
    del chunk
    data[:] = bytes(len(data))
    gc.collect()
    assert [r.headers for r in records] == [(("n", b"%d" % i),) for i in range(300)]


def test_headers_that_would_take_more_memory_than_a_batch_may_are_refused(core: ModuleType) -> None:
    bomb = build_batch([WireRecord(value=b"v"), WireRecord(headers=((("", None),) * (MIB // 16))), WireRecord(value=b"w")], codec=4)
    assert len(bomb) < 1000
    found: list[Any] = []
    peak = traced(lambda: found.append(decoded(core, bomb, bound=MIB // 4)))
    assert peak < MIB  # the unpacked batch, and what unpacking takes
    (records, error, chunk) = found[0]
    assert [r.value for r in records] == [b"v"]
    assert isinstance(error, RecordTooLarge)
    assert (error.offset, error.next_offset, chunk.position) == (1, 3, 1)
    assert "a record's 65,536 headers would take more than max_decompressed_bytes=262144" in str(error)
    assert chunk.skip() == 3


def test_as_many_headers_as_fit_are_read(core: ModuleType) -> None:
    (record,), error, _ = decoded(core, build_batch([WireRecord(headers=((("", None),) * 10_000))], codec=4), bound=2 * MIB)
    assert error is None
    assert len(record.headers) == 10_000


def test_small_bounds_refuse_no_usual_number_of_headers(core: ModuleType) -> None:
    (record,), error, _ = decoded(core, build_batch([WireRecord(headers=((("a", b"b"),) * 1000))]), bound=10_000)
    assert error is None
    assert len(record.headers) == 1000


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_set_takes_no_more_than_its_bytes_and_the_records_handed_out(core: ModuleType, magic: int) -> None:
    data = build_message_set([WireRecord(value=b"") for _ in range(MIB // 40)], magic, codec=1)
    out: list[Any] = []
    chunk = core.Chunk("t", 0, data, 0, decompress=decompress, max_decompressed=2 * MIB)
    assert traced(lambda: chunk.decode(out, 100)) < 4 * MIB
    assert [r.offset for r in out] == list(range(100))
    while chunk.decode(out, 1000):
        pass
    assert [r.offset for r in out] == list(range(MIB // 40))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_set_over_the_bound_names_the_offset_behind_it(core: ModuleType, magic: int) -> None:
    data = build_message_set([WireRecord(value=b"x" * 100) for _ in range(100)], magic, codec=1)
    records, error, _ = decoded(core, data, bound=1000)
    assert records == []
    assert isinstance(error, RecordTooLarge)
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 3, 0, 100)
