"""Calls every method of every type of the compiled core, on instances however they are made, with every kind of argument.

Run as a script, so that a crash ends this process only. It prints how many calls were made.
"""

from __future__ import annotations

import copy
import importlib
import itertools
import pickle
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from pykafka4.records import Written
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.compression import decompress
from tests.wire.records.hot_world import World
from tests.wire.records.message_sets import build_message_set

METHODS = ("seal", "fail", "complete", "add_done_callback", "send", "decode", "designate", "split", "set_apart", "compress", "finish")
NAMES = ("Accumulator", "Batch", "Delivery", "Chunk", "Record", "Hooks", "RecordsBuffer", "Settlement", "Parked", "Topic")


class Text(str):
    """A topic of an own type, whose methods cannot be trusted."""

    def __str__(self) -> str:
        raise ValueError("no text")

    def __hash__(self) -> int:
        raise ValueError("no hash")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")


def arguments() -> tuple[Any, ...]:
    return (
        None, 0, -1, 5, 2**31, 2**63, 2**64, 1.5, float("nan"), "", "t", "nowhere", "\udc80", "x" * 300, Text("t"),
        b"", b"t", bytearray(b"x"), (), [], {}, [("a", b"b")], object(), len, ValueError("v"), memoryview(b"abc")[::2],
        ValueError, Written.NO, [(Text("n"), Text("v"))],
    )  # fmt: skip


def constructions(kind: type) -> Iterator[Callable[[], Any]]:
    """Ways to an uninitialized instance."""
    yield lambda: kind()
    yield lambda: kind.__new__(kind)
    yield lambda: object.__new__(kind)
    yield lambda: kind(None)
    yield lambda: kind(b"x", b"y", b"z")
    yield lambda: kind.__new__(kind, None, None)
    yield lambda: type("Sub", (kind,), {})()
    yield lambda: copy.copy(kind.__new__(kind))


def copies(thing: object) -> Iterator[Callable[[], Any]]:
    yield lambda: copy.copy(thing)
    yield lambda: copy.deepcopy(thing)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield lambda protocol=protocol: pickle.loads(pickle.dumps(thing, protocol))  # type: ignore[misc]
    yield lambda: thing.__reduce_ex__(4)
    yield lambda: thing.__init__()  # type: ignore[misc]
    yield lambda: weakref.ref(thing)
    yield lambda: memoryview(thing)  # type: ignore[arg-type]
    yield lambda: (repr(thing), str(thing), hash(thing), thing == thing, bool(thing))
    yield lambda: len(thing)  # type: ignore[arg-type]


calls = 0


def attempt(action: Callable[..., Any], *given: Any) -> Any:
    global calls
    calls += 1
    try:
        return action(*given)
    except Exception:
        return None


def worlds(core: ModuleType) -> Iterator[list[Any]]:
    """Live instances in many states; recreated for every round, since the calls change them."""
    for codec in (0, 1):
        world = World(core, {"t": 2}, codec=codec)
        settled = world.send(partition=0)
        world.ack_all()
        failed = world.send(partition=0, on_delivery=lambda _: None)
        (lost,) = world.seal_all()
        callbacks = lost.fail("CODE", Written.NO, ValueError("cause"))
        parted = world.send(partition=0)
        world.send(partition=0)
        (whole,) = world.seal_all()
        parts = whole.split()
        sealed_handle = world.send(partition=1, headers=[("h", b"1")])
        (sealed,) = world.seal_all()
        parked = world.send("unknown")
        opened = world.send(partition=0)
        open_batch = next(b for b in world.acc.unfinished() if getattr(b, "state", None) == 0)
        yield [world.acc, settled, failed, lost, callbacks, parted, whole, *parts, sealed_handle, sealed, parked, opened, open_batch]
    one = [WireRecord(value=b"v", headers=(("h", b"1"), ("i", None))), WireRecord(value=b"w")]
    data = build_batch(one) + build_message_set([WireRecord(value=b"v")], 1, base_offset=5) + b"\0" * 100
    yield [core.Chunk("t", 0, data, 0, decompress=decompress, max_decompressed=1000), core.Record("t", 0, 0)]


def tortured(things: list[Any]) -> None:
    values = arguments()
    for thing in things:
        for name in dir(type(thing)):
            if name in ("__class__", "__init_subclass__", "__subclasshook__", "__sizeof__", "__dir__"):
                continue
            attempt(getattr, thing, name)
            for value in values:
                attempt(setattr, thing, name, value)
            attempt(delattr, thing, name)
            member = attempt(getattr, thing, name)
            if callable(member):
                attempt(member)
                for value in values:
                    attempt(member, value)
                for pair in itertools.product(values[::2], repeat=2):
                    attempt(member, *pair)
                attempt(member, "t", b"v", b"w", 1)
        for action in copies(thing):
            attempt(action)


def main(core: ModuleType) -> None:
    for name in NAMES:
        kind = getattr(core, name, None)
        if kind is None:
            continue
        for construct in constructions(kind):
            bare = attempt(construct)
            if bare is not None:
                tortured([bare])
    for things in worlds(core):
        for other in things:  # each with the others as arguments
            for thing in things:
                for name in METHODS:
                    if hasattr(thing, name):
                        attempt(getattr(thing, name), other)
    for things in worlds(core):
        tortured(things)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(importlib.import_module("pykafka4.wire.records.compiled._hot"))
    print(calls)
