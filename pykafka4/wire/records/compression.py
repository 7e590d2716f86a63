"""Compresses and decompresses with Kafka's codecs. Invariant: decompression stops at the limit.

So a decompression bomb costs at most about twice the limit. The numbers of gzip members, zstd frames and zstd blocks are also limited,
because empty ones would cost time without output.
"""

from __future__ import annotations

import functools
import importlib
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from pykafka4.errors import ConfigError, DecodeError, RecordTooLarge
from pykafka4.wire.buffers import Readable

__all__ = ["CODECS", "CODEC_NAMES", "LEVELS", "compress", "decompress", "is_interruption", "repair_lz4", "require_codec"]

# A new codec also goes into `compression_type` in `options.config`, LEVELS in `options.policies`, LAST_CODEC in `compiled/_hot.pyx`, the
# choices of `cli.bench` and `cli.produce`, and `integration/judge/log_format.py`; tests compare most of them.
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CODEC_NAMES = {number: name for name, number in CODECS.items()}
LEVELS = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}  # as in Kafka's compression.*.level; snappy has no level

_PIECE = 256 * 1024  # bytes of input or output of one step
_CRUMB = 4096  # bytes below which pieces of output are joined
_POOLED = 8  # maximum number of idle zstd contexts for each level, and for reading
_POOLED_BYTES = 16 << 20  # bytes of a zstd context that is kept; a frame of a few bytes can make a context take 128 MiB
_MEMBERS = 50_000  # maximum number of members of a gzip stream
_GZIP, _GZIP_MAGIC = 16 + zlib.MAX_WBITS, b"\x1f\x8b"
_BLOCKS = 1_000_000  # maximum number of blocks of a zstd frame; a block has up to 128 KiB
_FRAMES = 50_000  # maximum number of frames of a zstd stream
_ZSTD_MAGIC, _SKIPPABLE_MAGIC = 0xFD2FB528, 0x184D2A5  # the second without its last four bits, which writers choose
_REPEATED = 1  # type of a zstd block that has one byte, to be repeated

_XERIAL = struct.Struct(">8sii")
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_BLOCK = 32 * 1024  # bytes, as in snappy-java
_SNAPPY_RATIO = 22  # maximum ratio of decompressed to compressed bytes: a three-byte copy makes at most 64 bytes

_OF_CODECS = frozenset({"pykafka4", "snappy", "cramjam", "lz4", "zstandard"})  # packages whose frames run during compression

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE, _LZ4_DICTIONARY = 0x08, 0x01


# -- the libraries ---------------------------------------------------------------------

# A library is imported on first use: without it (no wheel for this platform), everything else still works.


@functools.cache
def _library(module: str, package: str, codec: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"compression_type={codec!r} needs the package {package}, which cannot be imported ({error})") from error


def _snappy() -> Any:
    return _library("snappy", "python-snappy", "snappy")


def _lz4() -> Any:
    return _library("lz4.frame", "lz4", "lz4")


def _zstd() -> Any:
    return _library("zstandard", "zstandard", "zstd")


def require_codec(name: str) -> None:
    """Raise ConfigError, naming option and package, if the library of the codec `name` cannot be imported."""
    load = {"snappy": _snappy, "lz4": _lz4, "zstd": _zstd}.get(name)
    if load is not None:
        load()


# -- compressing ---------------------------------------------------------------------


def compress(codec: int, data: Readable, level: int | None = None) -> bytes:
    """Compress `data` with the codec that has the number `codec` in Kafka; the same data and level yield the same bytes.

    `level` is within the codec's range in `LEVELS`, None for the codec's default. Raises ConfigError for an unknown codec, a level out of
    range, or a missing library.
    """
    writer = _WRITERS.get(codec)
    if writer is None:
        raise ConfigError(f"compression codec {codec} is unknown; there are {CODECS}")
    if level is not None:
        _check_level(CODEC_NAMES[codec], level)
    return writer(data, level)


def is_interruption(error: BaseException) -> bool:
    """Whether `error`, caught during compression, comes from a signal handler, and not from the codec.

    For an Exception, the module of the innermost frame of the traceback decides.
    """
    if not isinstance(error, Exception):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return module.partition(".")[0] not in _OF_CODECS


def _check_level(name: str, level: int) -> None:
    lo, hi = LEVELS.get(name, (level, level))
    if not lo <= level <= hi:
        raise ConfigError(f"compression level {level} is out of range for {name}: {lo} to {hi}")


def _write_gzip(data: Any, level: int | None) -> bytes:
    deflate = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, _GZIP)
    return deflate.compress(data) + deflate.flush()


def _write_snappy(data: Any, _: int | None) -> bytes:
    """Compress with the framing of snappy-java, which Kafka's clients read."""
    view = memoryview(data).cast("B")
    parts = [_XERIAL.pack(_XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = _snappy().compress(view[start : start + _XERIAL_BLOCK])
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _write_lz4(data: Any, level: int | None) -> bytes:
    """Compress into independent blocks, because Java cannot read linked ones, and without a content size, as Java does."""
    packed: bytes = _lz4().compress(
        data, compression_level=level or 0, block_size=_lz4().BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return packed


def _write_zstd(data: Any, level: int | None) -> bytes:
    """Compress with a pooled context: a new one costs more than the compression of a small batch.

    Two threads must not use a context at once, so a context in use leaves the pool.
    """
    wanted = 3 if level is None else level
    pool = _ZSTD_WRITERS.setdefault(wanted, deque(maxlen=_POOLED))
    context = _take(pool) or _zstd().ZstdCompressor(level=wanted)
    packed: bytes = context.compress(data)
    pool.append(context)
    return packed


def _take(pool: deque[Any]) -> Any:
    try:
        return pool.pop()
    except IndexError:
        return None


_ZSTD_WRITERS: dict[int, deque[Any]] = {}
_ZSTD_READERS: deque[Any] = deque(maxlen=_POOLED)


# -- decompressing -------------------------------------------------------------------


def decompress(codec: int, data: Readable, max_size: int) -> bytes:
    """Decompress `data` to at most `max_size` bytes.

    This takes up to `max_size` bytes of memory and a few MiB; while pieces are joined, up to twice the size of the decompressed data.
    Raises RecordTooLarge for larger data, DecodeError for damaged data or an unknown codec, ConfigError if the codec's library is missing.
    """
    reader = _READERS.get(codec)
    if reader is None:
        raise DecodeError(f"compression codec {codec} is unknown; there are {CODECS}")
    view = memoryview(data).cast("B")
    try:
        return reader(view, max_size)
    except _damage(codec) as error:
        raise DecodeError(f"damaged {CODEC_NAMES[codec]} data of {len(view)} bytes: {str(error) or error.__cause__}") from error


def _too_large(max_size: int) -> RecordTooLarge:
    return RecordTooLarge(f"a batch has more than {max_size} bytes when decompressed; a consumer needs a higher max_decompressed_bytes")


class _Output:
    """Collects pieces of output up to the limit. A growing buffer would be copied at every step, with both copies in memory.

    Tiny pieces are joined at once: an object for every two bytes of output would take twenty times their memory.
    """

    __slots__ = ("_crumbs", "_pieces", "_size", "max_size")

    def __init__(self, max_size: int) -> None:
        self._pieces: list[bytes] = []
        self._crumbs = bytearray()
        self._size, self.max_size = 0, max_size

    @property
    def room(self) -> int:
        """Bytes to request from a decompressor: at most one piece, and at most one byte over the limit, which shows the excess."""
        return min(_PIECE, self.left + 1)

    @property
    def left(self) -> int:
        return self.max_size - self._size

    def reserve(self, size: int) -> None:
        if size > self.left:
            raise _too_large(self.max_size)

    def add(self, piece: bytes) -> None:
        self.reserve(len(piece))
        self._size += len(piece)
        if len(piece) < _CRUMB and self._size > len(piece):  # the first piece may be all of the output, which needs no copy
            self._crumbs += piece
        else:
            self._sweep()
            self._pieces.append(piece)
        if len(self._crumbs) >= _PIECE:
            self._sweep()

    def _sweep(self) -> None:
        if self._crumbs:
            self._pieces.append(bytes(self._crumbs))
            self._crumbs.clear()

    def bytes(self) -> bytes:
        self._sweep()
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


def _pieces(view: memoryview) -> Iterator[memoryview]:
    return (view[start : start + _PIECE] for start in range(0, len(view), _PIECE))


def _read_none(view: memoryview, max_size: int) -> bytes:
    _Output(max_size).reserve(len(view))
    return bytes(view)


def _read_gzip(view: memoryview, max_size: int) -> bytes:
    """Decompress all members. Bytes after them that do not begin a member (padding) are ignored, as in Java."""
    out, at = _Output(max_size), 0
    for _ in range(_MEMBERS):
        at = _gzip_member(view, at, out)
        if view[at : at + len(_GZIP_MAGIC)] != _GZIP_MAGIC:
            return out.bytes()
    raise DecodeError(f"more than {_MEMBERS} gzip members in one batch")


def _gzip_member(view: memoryview, at: int, out: _Output) -> int:
    """Decompress the member at `at`; return its end.

    The pieces of input start small and grow, because `unused_data` is a copy of the rest of the piece after the member: thousands of tiny
    members in large pieces would each cost a large copy.
    """
    inflate, size, begin = zlib.decompressobj(_GZIP), _CRUMB, at
    while not inflate.eof:
        piece: Any = inflate.unconsumed_tail or view[at : at + size]
        if not inflate.unconsumed_tail:
            at, size = at + len(piece), min(2 * size, _PIECE)
        made = inflate.decompress(piece, out.room)
        out.add(made)
        if not piece and not made and not inflate.eof:
            raise DecodeError(f"the gzip member at byte {begin} is truncated")
    return at - len(inflate.unused_data)


def _read_snappy(view: memoryview, max_size: int) -> bytes:
    """Decompress data in the framing of snappy-java, or one raw block, as librdkafka writes it.

    As in Java, several streams, each with a header, may follow one another, and up to three bytes at the end are ignored.
    """
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy_block(view, _Output(max_size))
    out, pos = _Output(max_size), _XERIAL.size
    if len(view) < pos:
        raise DecodeError("the snappy header is truncated")
    while len(view) - pos >= 4:
        if view[pos : pos + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            pos += _XERIAL.size
            continue
        size = int.from_bytes(view[pos : pos + 4], "big")
        pos += 4
        if not 0 < size <= len(view) - pos:
            raise DecodeError(f"a snappy block of {size} bytes, but only {max(0, len(view) - pos)} are left")
        out.add(_snappy_block(view[pos : pos + size], out))
        pos += size
    return out.bytes()


def _snappy_block(block: memoryview, out: _Output) -> bytes:
    """Decompress `block`. The size at its start is checked before the library allocates that much memory."""
    size = 0
    for place, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    else:
        raise DecodeError("a snappy block without a size")
    out.reserve(size)
    if size > _SNAPPY_RATIO * len(block):
        raise DecodeError(f"a snappy block of {len(block)} bytes that claims to hold {size}")
    made: bytes = _snappy().decompress(block)
    return made


def _read_lz4(view: memoryview, max_size: int) -> bytes:
    """Decompress the first frame. Bytes after it are ignored, as in the brokers' check of batches."""
    if view[: len(_LZ4_MAGIC)] != _LZ4_MAGIC:
        raise DecodeError("not an lz4 frame")
    out, frame = _Output(max_size), _lz4().LZ4FrameDecompressor()
    for piece in _pieces(view):
        out.add(frame.decompress(piece, max_length=out.room))
        while not frame.eof and not frame.needs_input:
            out.add(frame.decompress(b"", max_length=out.room))
        if frame.eof:
            return out.bytes()
    raise DecodeError("the lz4 frame is truncated")


def _read_zstd(view: memoryview, max_size: int) -> bytes:
    """Decompress each frame into one block of memory, which is also the window: streaming would need memory for both."""
    out, context = _Output(max_size), _take(_ZSTD_READERS) or _zstd().ZstdDecompressor()
    try:
        for frame in _zstd_frames(view):
            out.add(_zstd_frame(context, frame, out))
    finally:
        if context.memory_size() <= _POOLED_BYTES:
            _ZSTD_READERS.append(context)
    return out.bytes()


def _zstd_frames(view: memoryview) -> Iterator[memoryview]:
    """The frames with data, without skippable ones."""
    at = 0
    for _ in range(_FRAMES + 1):  # the last turn finds the end
        if at == len(view):
            return
        magic = int.from_bytes(view[at : at + 4], "little")
        if magic == _ZSTD_MAGIC:
            end = at + _zstd_size(view[at:])
            yield view[at:end]
        elif magic >> 4 == _SKIPPABLE_MAGIC and len(view) - at >= 8:
            end = at + 8 + int.from_bytes(view[at + 4 : at + 8], "little")
        else:
            raise DecodeError(f"{len(view) - at} extra bytes after the end of the zstd frame" if at else "not a zstd frame")
        if end > len(view):
            raise DecodeError("the zstd frame is truncated")
        at = end
    raise DecodeError(f"more than {_FRAMES} zstd frames in one batch")


def _zstd_size(view: memoryview) -> int:
    """The size of the frame that `view` begins with."""
    has_checksum: bool = _zstd().get_frame_parameters(view).has_checksum
    at: int = _zstd().frame_header_size(view)
    last = 0
    for _ in range(_BLOCKS + 1):  # the last turn finds the end
        if last or at >= len(view):
            return at + 4 * has_checksum
        header = int.from_bytes(view[at : at + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        at += 3 + (1 if kind == _REPEATED else size)
    raise DecodeError(f"more than {_BLOCKS} blocks in one zstd frame")


def _zstd_frame(context: Any, frame: memoryview, out: _Output) -> bytes:
    """Decompress one frame. If its size is unknown, a likely size is tried before the limit: a large block of memory costs time."""
    size = _zstd().get_frame_parameters(frame).content_size
    known = size != _zstd().CONTENTSIZE_UNKNOWN
    if known:
        out.reserve(size)
    for room in (size,) if known else (8 * len(frame) + _PIECE, out.left):
        if room <= out.left:
            try:
                made: bytes = context.decompress(frame, max_output_size=max(room, 1))
            except _zstd().ZstdError:
                if known:
                    raise
                continue
            return made
    # The library raises the same error for a damaged frame and for one that is too long, so count the bytes without keeping them.
    counted = 0
    with context.stream_reader(frame, read_size=_PIECE) as stream:
        while counted <= out.left:
            piece = stream.read(_PIECE)
            if not piece:
                raise DecodeError("the zstd frame is damaged or truncated")
            counted += len(piece)
    raise _too_large(out.max_size)


def repair_lz4(data: Readable) -> bytes:
    """The LZ4 frame in `data`, with a correct header checksum.

    In message format v0 the header checksum covers the wrong bytes, so the header is rebuilt from its flags.
    """
    view = memoryview(data).cast("B")
    if len(view) < 7 or view[:4] != _LZ4_MAGIC:
        raise DecodeError("not an lz4 frame")
    flags, block = view[4], view[5]
    if flags >> 6 != 1 or flags & _LZ4_DICTIONARY or not 4 <= block >> 4 <= 7:
        raise DecodeError(f"an lz4 frame with flags {flags:#x} and block size {block:#x}")
    fresh = _lz4().LZ4FrameCompressor(
        block_size=block >> 4, block_linked=not flags & 0x20, block_checksum=bool(flags & 0x10), content_checksum=bool(flags & 0x04)
    )
    return bytes(fresh.begin()) + bytes(view[15 if flags & _LZ4_CONTENT_SIZE else 7 :])


_Writer: TypeAlias = Callable[[Any, "int | None"], bytes]
_Reader: TypeAlias = Callable[[memoryview, int], bytes]
_WRITERS: dict[int, _Writer] = {0: lambda data, _: bytes(data), 1: _write_gzip, 2: _write_snappy, 3: _write_lz4, 4: _write_zstd}
_READERS: dict[int, _Reader] = {0: _read_none, 1: _read_gzip, 2: _read_snappy, 3: _read_lz4, 4: _read_zstd}
_DAMAGE = (zlib.error, RuntimeError, EOFError)  # lz4 has no exception class of its own: it raises the last two


def _damage(codec: int) -> tuple[type[Exception], ...]:
    if codec == CODECS["snappy"]:
        return (*_DAMAGE, _snappy().UncompressError)
    return (*_DAMAGE, _zstd().ZstdError) if codec == CODECS["zstd"] else _DAMAGE
