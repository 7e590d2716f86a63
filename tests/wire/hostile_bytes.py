"""Hostile bytes. Rule: they come from Hypothesis, so that a failing input is reduced, and then it is kept.

`make fuzz` takes many more of them, from a new seed each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.errors import DecodeError
from tests.wire.memory_meter import peak_memory
from tests.wire.wire_samples import CORPUS

LENGTHS = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x0f\x42\x40",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 10,
    b"\xc1\x84\x3d",
    b"\xff\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\x00" * 4,
)
BYTES = tuple(bytes((byte,)) for byte in (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF))
SWOLLEN = tuple(count + element * 2000 for count in (b"\xd1\x0f", b"\x00\x00\x07\xd0") for element in (b"\0", b"\1", b"\1\1\0", b"\0\0"))

_PIECES = st.one_of(st.sampled_from((b"", *BYTES, *LENGTHS)), st.sampled_from(SWOLLEN), st.binary(min_size=1, max_size=4))
_DROPPED = st.sampled_from((0, 1, 1, 2, 4, 1 << 16))
_EDITS = st.lists(st.tuples(st.integers(0, 1 << 16), _DROPPED, _PIECES), min_size=1, max_size=4)
Meter = Callable[[], AbstractContextManager[None]]
MEASURED_AT_ONCE = 2_000  # examples
_LAST: dict[tuple[Path, str], Path] = {}


def edited(valid: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """`valid` with edits: at a place, so many bytes dropped, and others in their place."""
    data = bytearray(valid)
    for place, dropped, piece in edits:
        at = place % (len(data) + 1)
        data[at : at + dropped] = piece
    return bytes(data)


def damaged(*valid: bytes) -> st.SearchStrategy[bytes]:
    """One of these with bytes changed, cut, doubled, or with a length, or thousands of elements, where none belong."""
    return st.builds(edited, st.sampled_from(valid), _EDITS)


def hostile(*valid: bytes) -> st.SearchStrategy[bytes]:
    """The same, or invented."""
    return st.one_of(damaged(*valid), damaged(*valid), damaged(*valid), st.binary(max_size=80))


def meters(examples: int) -> tuple[Meter, Meter]:
    """What measures the memory of a whole search, and of each input.

    Hypothesis remembers what it has tried, which is more than the limit after a long search: there each input is measured by itself.
    """
    return (peak_memory, nullcontext) if examples <= MEASURED_AT_ONCE else (nullcontext, peak_memory)


def search(bytes_: st.SearchStrategy[bytes], read: Callable[[bytes], Any], kept_as: str, *allowed: type[Exception], many: int = 2) -> None:
    """`read` takes or refuses any of `bytes_`, and never with more than 64 MiB; `many`: how many times the examples of other tests."""
    examples = many * settings.default.max_examples
    of_all, of_each = meters(examples)

    @settings(max_examples=examples)
    @given(data=bytes_)
    def reading(data: bytes) -> None:
        with of_each():
            survives(read, data, kept_as, *allowed)

    with of_all():
        reading()


def survives(read: Callable[[bytes], Any], data: bytes, kept_as: str, *allowed: type[Exception]) -> None:
    """`read` may take `data` or refuse it as it promised; anything else is a failure, and the input is kept."""
    try:
        read(data)
    except (DecodeError, *allowed):
        pass
    except BaseException as error:
        keep(CORPUS, kept_as, f"{kept_as} {type(error).__name__}", ".bin", data)
        raise


def keep(corpus: Path, name: str, failure: str, ending: str, content: bytes) -> None:
    """Write an input that failed, in the place of a larger one that failed in the same way a moment ago."""
    corpus.mkdir(exist_ok=True)
    before = _LAST.get((corpus, failure))
    if before is not None:
        before.unlink(missing_ok=True)
    path = _LAST[corpus, failure] = corpus / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}{ending}"
    path.write_bytes(content)
