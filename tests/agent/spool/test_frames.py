"""The bytes of segments, whole and damaged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykafka4.agent.format import pack
from pykafka4.agent.spool.frames import FIRST, SEAL_SIZE, crc_of, cut, header, read_header, read_seal, salvage, seal

VALUES = st.lists(st.binary(max_size=60) | st.just(b"\x01\x00\x00\x00\x00\x00" * 5), min_size=1, max_size=12)


def bodies(values: list[bytes]) -> list[bytes]:
    return [pack(b"topic", value, b"", n, n) for n, value in enumerate(values)]


def whole(messages: list[bytes]) -> bytes:
    return b"".join(crc_of(body) + body for body in messages)


@given(VALUES)
def test_frames_are_cut_as_they_were_written(values: list[bytes]) -> None:
    messages = bodies(values)
    data = whole(messages)
    found = cut(data)
    assert [body for _, body in found] == messages
    assert found[-1][0] == len(data)


@given(VALUES, st.data())
def test_torn_write_leaves_the_whole_frames_before_it(values: list[bytes], data: st.DataObject) -> None:
    messages = bodies(values)
    full = whole(messages)
    end = data.draw(st.integers(0, len(full)))
    found = salvage(full[:end])
    assert [body for _, body in found.frames] == messages[: len(found.frames)]
    assert found.damaged == []
    assert len(whole(messages[: len(found.frames) + 1])) > end or end == len(full)
    assert found.end == len(whole(messages[: len(found.frames)]))


@given(VALUES, st.integers(1, 5000))
def test_zeros_behind_the_last_frame_are_a_torn_write(values: list[bytes], zeros: int) -> None:
    data = whole(bodies(values))
    found = salvage(data + bytes(zeros))
    assert (len(found.frames), found.damaged, found.end) == (len(values), [], len(data))


@given(VALUES, st.data(), st.integers(1, 5000))
def test_torn_write_may_end_in_zeros(values: list[bytes], data: st.DataObject, zeros: int) -> None:
    messages = bodies(values)
    full = whole(messages)
    before = len(whole(messages[:-1]))
    found = salvage(full[: data.draw(st.integers(before, len(full) - 1))] + bytes(zeros))
    # If the missing bytes are zeros themselves, the frame is complete.
    assert (found.damaged, found.end) in [([], before), ([], len(full))]


@given(VALUES, st.data())
def test_damage_loses_only_the_frames_that_it_touches(values: list[bytes], data: st.DataObject) -> None:
    messages = bodies(values)
    full = bytearray(whole(messages))
    begin = data.draw(st.integers(0, len(full) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=min(40, len(full) - begin)))
    full[begin : begin + len(noise)] = noise
    ends = [len(whole(messages[: n + 1])) for n in range(len(messages))]
    kept = [m for m, end in zip(messages, ends) if end <= begin or end - len(m) - 4 >= begin + len(noise)]
    found = [body for _, body in salvage(bytes(full)).frames]
    assert [body for body in found if body in kept] == kept
    assert all(body in messages for body in found)


@given(VALUES, st.data())
def test_damaged_ranges_and_frames_cover_everything(values: list[bytes], data: st.DataObject) -> None:
    full = bytearray(whole(bodies(values)))
    for _ in range(data.draw(st.integers(0, 3))):
        full[data.draw(st.integers(0, len(full) - 1))] ^= 0xFF
    found = salvage(bytes(full))
    parts = sorted([(end - 4 - len(body), end) for end, body in found.frames] + found.damaged)
    at = 0
    for begin, end in parts:
        assert begin == at
        at = end
    assert at == found.end


def test_seal_and_header_are_read_back() -> None:
    assert read_seal(seal(12345)) == 12345
    assert len(seal(1)) == SEAL_SIZE
    assert read_seal(seal(1)[:-1]) is None
    assert read_seal(bytes(SEAL_SIZE)) is None
    assert read_header(header(77, 3) + bytes(0)) == (77, 3)


def test_damaged_progress_begins_at_the_first_frame() -> None:
    data = bytearray(header(77, 3).ljust(FIRST, b"\0"))
    data[20] ^= 1
    assert read_header(bytes(data)) == (FIRST, 0)
