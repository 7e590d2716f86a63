from __future__ import annotations

import io
import random
import struct
import subprocess
import sys
import time
import zlib
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.errors import ConfigError, DecodeError, RecordTooLarge
from pykafka4.wire.records.compression import _ZSTD_READERS, CODEC_NAMES, CODECS, LEVELS, compress, decompress, repair_lz4
from tests.wire.hostile_bytes import hostile, search
from tests.wire.memory_meter import MIB, linux, peak_memory
from tests.wire.wire_samples import BUFFERS

REAL = [CODECS[name] for name in ("gzip", "snappy", "lz4", "zstd")]
ALL = [0, *REAL]


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size // 2) + bytes(size - size // 2)


def zstd_without_size(data: bytes) -> bytes:
    """As Java's stream writes it."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


SKIPPED = struct.pack("<II", 0x184D2A5F, 3) + b"abc"  # a skippable frame of zstd
FORMS = {
    "gzip": (1, lambda data: compress(1, data)),
    "gzip in members": (1, lambda data: compress(1, data[:5]) + compress(1, data[5:])),
    "gzip with padding": (1, lambda data: compress(1, data) + bytes(10)),
    "snappy framed": (2, lambda data: compress(2, data)),
    "snappy raw": (2, snappy.compress),
    "snappy in streams": (2, lambda data: compress(2, data[:5]) + b"\0\0\0\1\0" + compress(2, data[5:])),
    "lz4": (3, lambda data: compress(3, data)),
    "lz4 linked, with checksums": (3, lambda data: lz4.frame.compress(data, content_checksum=True, block_checksum=True)),
    "zstd": (4, lambda data: compress(4, data)),
    "lz4 with more after it": (3, lambda data: compress(3, data) + compress(3, b"more")),
    "zstd without size": (4, zstd_without_size),
    "zstd in frames": (4, lambda data: SKIPPED + compress(4, data[:5]) + SKIPPED + zstd_without_size(data[5:]) + SKIPPED),
}
ENDS_ANYWHERE = ("gzip in members", "gzip with padding", "snappy in streams", "lz4 with more after it", "zstd in frames")


# -- what goes in comes out -----------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 32 * 1024 + 1, 700_000, 3_000_000])
def test_what_was_compressed_comes_back_within_exactly_its_size(form: str, size: int) -> None:
    codec, pack = FORMS[form]
    data = noise(size)
    assert decompress(codec, pack(data), size) == data


@pytest.mark.parametrize("codec", ALL, ids=CODEC_NAMES.get)
def test_any_buffer_is_taken_and_bytes_come_back(codec: int) -> None:
    for buffer in BUFFERS.values():
        packed = compress(codec, buffer(b"abc" * 50))
        back = decompress(codec, buffer(packed), 1000)
        assert (type(packed), type(back), back) == (bytes, bytes, b"abc" * 50)


@given(data=st.binary(max_size=2000), codec=st.sampled_from(ALL))
def test_any_bytes_come_back(data: bytes, codec: int) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", REAL, ids=CODEC_NAMES.get)
def test_the_same_data_gives_the_same_bytes(codec: int) -> None:
    assert compress(codec, noise(5000)) == compress(codec, noise(5000))


@pytest.mark.parametrize("name", LEVELS)
def test_levels_are_taken_within_kafkas_range(name: str) -> None:
    codec, (lo, hi) = CODECS[name], LEVELS[name]
    for level in (lo, hi):
        assert decompress(codec, compress(codec, b"abc" * 100, level), 300) == b"abc" * 100
    for level in (lo - 1, hi + 1):
        with pytest.raises(ConfigError, match=f"compression level {level} is out of range for {name}"):
            compress(codec, b"", level)


def test_snappy_is_framed_as_java_frames_it() -> None:
    packed = compress(2, bytes(40_000))
    magic, version, compatible, first = struct.unpack_from(">8siii", packed)
    assert (magic, version, compatible) == (b"\x82SNAPPY\0", 1, 1)
    assert snappy.decompress(packed[20 : 20 + first]) == bytes(32 * 1024)


def test_lz4_frames_are_of_the_kind_java_reads() -> None:
    """Version 1, independent blocks, no checksums, no content size, 64 KiB blocks."""
    assert compress(3, bytes(200_000))[:6] == b"\x04\x22\x4d\x18\x60\x40"


def test_gzip_headers_hold_no_time() -> None:
    assert compress(1, b"abc")[:9] == b"\x1f\x8b\x08" + bytes(6)


# -- bounds -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [2, 40_000, 700_000])
def test_one_byte_over_the_bound_is_too_large(form: str, size: int) -> None:
    codec, pack = FORMS[form]
    packed = pack(noise(size))
    for bound in {0, 1, size // 2, size - 1}:
        with pytest.raises(RecordTooLarge, match=rf"more than {bound} bytes when"):
            decompress(codec, packed, bound)


def test_uncompressed_data_is_bound_as_well() -> None:
    assert decompress(0, b"abc", 3) == b"abc"
    with pytest.raises(RecordTooLarge):
        decompress(0, b"abc", 2)


def lz4_bomb(size: int) -> bytes:
    compressor = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    piece = bytes(4 * MIB)
    return b"".join([compressor.begin(), *(compressor.compress(piece) for _ in range(size // len(piece))), compressor.flush()])


def stream_bomb(compressor: Any, size: int) -> bytes:
    return b"".join([*(compressor.compress(bytes(MIB)) for _ in range(size // MIB)), compressor.flush()])


BOMBS = {
    "gzip": (1, lambda size: stream_bomb(zlib.compressobj(wbits=31), size)),
    "snappy framed": (2, lambda size: compress(2, b"") + compress(2, bytes(32768))[16:] * (size // 32768)),
    "snappy raw": (2, lambda size: snappy.compress(bytes(size))),
    "lz4": (3, lz4_bomb),
    "zstd": (4, lambda size: zstandard.ZstdCompressor().compress(bytes(size))),
    "zstd without size": (4, lambda size: stream_bomb(zstandard.ZstdCompressor(level=19).compressobj(), size)),
}


@linux
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_stops_at_the_bound_and_costs_little_more(bomb: str) -> None:
    codec, build = BOMBS[bomb]
    packed = build(256 * MIB)
    assert len(packed) < 16 * MIB
    with peak_memory(16 * MIB + 12 * MIB), pytest.raises(RecordTooLarge):
        decompress(codec, packed, 16 * MIB)


@linux
def test_the_memory_meter_would_notice_a_bomb() -> None:
    packed = compress(1, bytes(64 * MIB))
    with pytest.raises(AssertionError), peak_memory(28 * MIB):
        decompress(1, packed, 64 * MIB)


def test_a_frame_with_a_large_window_leaves_no_memory_behind() -> None:
    wide = zstandard.ZstdCompressionParameters(window_log=27, compression_level=1)
    packed = stream_bomb(zstandard.ZstdCompressor(compression_params=wide).compressobj(), 256 * MIB)
    assert len(packed) < 64 * 1024
    with pytest.raises(RecordTooLarge):
        decompress(4, packed, MIB)
    assert all(context.memory_size() <= 16 * MIB for context in _ZSTD_READERS)


@linux
def test_claimed_sizes_are_compared_before_memory_is_taken() -> None:
    huge_snappy = b"\xff\xff\xff\xff\x0f" + b"\0" * 20
    huge_zstd = b"\x28\xb5\x2f\xfd" + b"\xe0" + b"\xff" * 7 + b"\x3f" + bytes(20)
    for codec, data, bound in ((2, huge_snappy, 16 * MIB), (4, huge_zstd, 16 * MIB)):
        with peak_memory(4 * MIB), pytest.raises(RecordTooLarge):
            decompress(codec, data, bound)
    with peak_memory(4 * MIB), pytest.raises(DecodeError, match="a snappy block of 10 bytes that claims to hold 33554432"):
        decompress(2, b"\x80\x80\x80\x10" + b"\0" * 6, 64 * MIB)


@linux
def test_many_small_pieces_cost_what_they_hold() -> None:
    """A million snappy blocks of two bytes each: an object for each would take 40 MiB."""
    block = snappy.compress(b"ab")
    packed = compress(2, b"") + (len(block).to_bytes(4, "big") + block) * 1_000_000
    with peak_memory(12 * MIB):
        assert decompress(2, packed, 64 * MIB) == b"ab" * 1_000_000


@pytest.mark.parametrize(("codec", "name"), [(1, "gzip members"), (4, "zstd frames")])
def test_parts_are_read_up_to_a_number(codec: int, name: str) -> None:
    part = compress(codec, b"ab")
    assert decompress(codec, part * 50_000, MIB) == b"ab" * 50_000
    began = time.process_time()
    with pytest.raises(DecodeError, match=f"more than 50000 {name}"):
        decompress(codec, part * 50_001, MIB)
    assert time.process_time() - began < 5


# -- damage ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_data_that_is_cut_short_is_damaged(form: str) -> None:
    codec, pack = FORMS[form]
    packed = pack(noise(3000))
    for end in (0, 1, 3, 7, len(packed) // 2, len(packed) - 1):
        if (form in ENDS_ANYWHERE and end > 7) or (codec == 4 and end == 0):  # no bytes are no zstd frames
            continue
        if form == "snappy framed" and end == 16:
            continue
        with pytest.raises(DecodeError):
            decompress(codec, packed[:end], MIB)


@pytest.mark.parametrize("form", ["snappy framed", "zstd", "zstd without size", "zstd in frames"])
def test_bytes_behind_the_end_are_damage(form: str) -> None:
    codec, pack = FORMS[form]
    with pytest.raises(DecodeError):
        decompress(codec, pack(noise(3000)) + b"more", MIB)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("data", [b"", b"a" * 1_000_000, noise(1_000_000), noise(100) * 5_000], ids=["empty", "repeated", "raw", "packed"])
def test_the_end_of_a_zstd_frame_is_found_whatever_its_blocks_are(data: bytes, checksum: bool) -> None:
    packer = zstandard.ZstdCompressor(write_checksum=checksum).compressobj()
    packed = packer.compress(data) + packer.flush()
    assert decompress(4, packed, MIB) == data
    assert decompress(4, packed + packed, 2 * MIB) == data + data
    for more in (b"x", bytes(4)):
        with pytest.raises(DecodeError, match=f"{len(more)} extra bytes after the end of the zstd frame"):
            decompress(4, packed + more, MIB)


def test_a_zstd_frame_of_nothing_but_empty_blocks_does_not_take_for_ever() -> None:
    packer = zstandard.ZstdCompressor().compressobj()
    header = packer.compress(b"a") + packer.flush()
    frame = header[: zstandard.frame_header_size(header)] + bytes(3 * 2_000_000)
    began = time.process_time()
    with pytest.raises(DecodeError, match="blocks"):
        decompress(4, frame, MIB)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("form", FORMS)
def test_mutated_data_is_refused_or_bounded(form: str) -> None:
    codec, pack = FORMS[form]
    search(hostile(pack(noise(300))), lambda data: decompress(codec, data, 5000), f"codec-{codec}", RecordTooLarge, many=10)


@pytest.mark.parametrize("codec", [-1, 5, 7, 99])
def test_an_unknown_codec_is_named(codec: int) -> None:
    with pytest.raises(DecodeError, match=f"compression codec {codec} is unknown"):
        decompress(codec, b"", 10)
    with pytest.raises(ConfigError, match=f"compression codec {codec} is unknown"):
        compress(codec, b"")


# -- the header checksum of old lz4 frames -----------------------------------------------------


@pytest.mark.parametrize("store_size", [True, False])
@pytest.mark.parametrize("linked", [True, False])
def test_an_lz4_frame_with_a_wrong_header_checksum_is_repaired(store_size: bool, linked: bool) -> None:
    good = lz4.frame.compress(b"abc" * 1000, store_size=store_size, block_linked=linked, content_checksum=True)
    at = 14 if store_size else 6
    broken = good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]
    with pytest.raises(DecodeError):
        decompress(3, broken, 3000)
    assert decompress(3, repair_lz4(broken), 3000) == b"abc" * 1000 == decompress(3, repair_lz4(good), 3000)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x04\x22\x4d\x18",
        b"junkjunk",
        b"\x04\x22\x4d\x18\x20\x40\x82",
        b"\x04\x22\x4d\x18\x60\x00\x82",
        b"\x04\x22\x4d\x18\x61\x40\x82",
    ],
)
def test_what_is_no_lz4_frame_cannot_be_repaired(data: bytes) -> None:
    with pytest.raises(DecodeError):
        repair_lz4(io.BytesIO(data).getbuffer())


# -- when libraries are imported ----------------------------------------------------------

LIBRARIES = ("snappy", "cramjam", "lz4", "zstandard")
IMPORTS = f"""
import sys
import pykafka4
for name in pykafka4.__all__:
    getattr(pykafka4, name)
producer = pykafka4.Producer(bootstrap_servers="127.0.0.1:1", compression_type="gzip")
producer.close(0)
print([name for name in {LIBRARIES} if name in sys.modules])
producer = pykafka4.Producer(bootstrap_servers="127.0.0.1:1", compression_type="zstd")
producer.close(0)
print([name for name in {LIBRARIES} if name in sys.modules])
"""


def test_a_library_is_imported_only_for_a_producer_that_needs_it() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[]\n['zstandard']\n", done.stderr
