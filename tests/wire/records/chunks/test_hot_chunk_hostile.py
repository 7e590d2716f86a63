"""Chunks of hostile bytes: both implementations give the same records and errors, and an input that fails is kept."""

from __future__ import annotations

import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.errors import CorruptRecord, DecodeError, RecordTooLarge
from pykafka4.wire.records.batch import ControlType, WireRecord, build_batch, control_record
from pykafka4.wire.records.checksum import crc32c
from pykafka4.wire.records.layout import ATTRIBUTES, CRC, HEADER_SIZE, LENGTH
from tests.wire.hostile_bytes import damaged, keep, meters
from tests.wire.records.chunk_bytes import batch_of, records
from tests.wire.records.hot_world import IMPLEMENTATIONS, as_tuples, decoded
from tests.wire.records.message_sets import build_message_set

CORPUS = Path(__file__).parent / "corpus_hot"
SEEDS = [
    build_batch(records(20)),
    build_batch(records(5)) + build_batch(records(5, start=5), base_offset=5, codec=2) + build_batch(records(2, start=10), base_offset=10),
    build_batch([WireRecord(offset=i, key=b"k" * i, value=None, headers=(("h", b"v" * i),) * i) for i in range(6)]),
    build_batch([control_record(ControlType.ABORT)], control=True) + build_batch(records(3, start=1), base_offset=1, codec=4),
    build_message_set(records(4), 1),
    build_message_set(records(4), 1, 1),
    build_message_set(records(4), 0),
]


def resealed_maybe(data: bytes) -> bytes:
    """Changed bytes behind a checksum that is right again, where there is room for one."""
    if len(data) <= HEADER_SIZE:
        return data
    out = bytearray(data)
    length = struct.unpack_from(">i", out, LENGTH)[0] + 12
    if HEADER_SIZE <= length <= len(out):
        struct.pack_into(">I", out, CRC, crc32c(bytes(out[ATTRIBUTES:length])))
    return bytes(out)


def outcome(core: ModuleType, data: bytes, offset: int, step: int) -> tuple[Any, ...]:
    """Everything that can be seen of decoding `data`; anything but the promised errors breaks the test."""
    out, error, chunk = decoded(core, data, offset, step=step)
    assert error is None or isinstance(error, (CorruptRecord, RecordTooLarge, DecodeError)), repr(error)
    where = (chunk.position, chunk.next_offset, chunk.incomplete, chunk.last_leader_epoch, chunk.exhausted)
    more: list[Any] = []
    passed: Any = chunk.skip() if error is not None else None
    try:
        while error is not None and chunk.decode(more, step):
            pass
    except (CorruptRecord, RecordTooLarge, DecodeError) as again:
        passed = (passed, type(again), getattr(again, "offset", None))
    return as_tuples(out), type(error), getattr(error, "offset", None), where, passed, as_tuples(more)


def check(data: bytes, offset: int = 0, step: int = 7) -> None:
    """Both give the same; when they do not, the input is kept."""
    try:
        seen = [outcome(core, data, offset, step) for core in IMPLEMENTATIONS]
        assert all(one == seen[0] for one in seen), data.hex()
    except BaseException as error:
        keep(CORPUS, "chunk", type(error).__name__, ".hex", f"{data.hex()}\n{offset} {step}\n".encode())
        raise


MUTANTS = st.one_of(damaged(*SEEDS), damaged(*SEEDS).map(resealed_maybe), damaged(*SEEDS).map(resealed_maybe))


def test_mutated_bytes_give_the_same_records_and_errors_from_both_and_cost_little() -> None:
    examples = 60 * settings.default.max_examples
    of_all, of_each = meters(examples)

    @settings(max_examples=examples)
    @given(MUTANTS, st.sampled_from((0, 0, 3, 7)), st.sampled_from((1, 7, 1000)))
    def decoding(data: bytes, offset: int, step: int) -> None:
        with of_each():
            check(data, offset, step)

    with of_all():
        decoding()


def test_an_input_that_fails_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "CORPUS", tmp_path)
    monkeypatch.setitem(globals(), "outcome", lambda *args: object())
    with pytest.raises(AssertionError):
        check(b"abc", 3, 1)
    (path,) = tmp_path.glob("chunk-*.hex")
    assert kept(path) == [(b"abc", 3, 1)]


@given(st.binary(max_size=300))
def test_random_bytes_give_the_same_errors_from_both(data: bytes) -> None:
    check(data)


@given(st.binary(max_size=120), st.integers(-1, 5), st.integers(-1, 5))
def test_random_records_behind_a_good_checksum_give_the_same_from_both(body: bytes, count: int, last: int) -> None:
    check(batch_of(body, count, last))


WIRE_RECORDS = st.builds(
    WireRecord,
    timestamp_ms=st.integers(0, 2**62),
    key=st.none() | st.binary(max_size=200),
    value=st.none() | st.binary(max_size=200),
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=4).map(tuple),
)


@given(st.lists(WIRE_RECORDS, max_size=20), st.integers(0, 4), st.integers(0, 2**40), st.integers(1, 25))
def test_any_records_give_the_same_from_both(put: list[WireRecord], codec: int, base: int, step: int) -> None:
    data = build_batch(put, base_offset=base, codec=codec, last_offset_delta=None if put else 0)
    check(data, base, step)
    out = decoded(IMPLEMENTATIONS[0], data, base)[0]
    assert [(r.timestamp_ms, r.key, r.value, r.headers) for r in out] == [(r.timestamp_ms, r.key, r.value, r.headers) for r in put]


def kept(path: Path) -> list[tuple[bytes, int, int]]:
    """(bytes, offset, step) of a kept input; by hand only the bytes are written."""
    data, *rest = path.read_text().split()
    return [(bytes.fromhex(data), int(rest[0]), int(rest[1]))] if rest else [(bytes.fromhex(data), 0, step) for step in (1, 7, 1000)]


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.hex")), ids=lambda path: path.stem)
def test_earlier_failures_stay_fixed(path: Path) -> None:
    for data, offset, step in kept(path):
        check(data, offset, step)
