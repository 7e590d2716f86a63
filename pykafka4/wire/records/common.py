"""Checks callbacks and chosen partitions, wakes tasks and words errors, for both cores."""

from __future__ import annotations

import contextlib
import copy
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from typing import Any, Final

from pykafka4.errors import KafkaError, shown
from pykafka4.logs import get_log

__all__ = [
    "Waker",
    "checked_callback",
    "chosen_partition",
    "dropped_rows",
    "drops_of",
    "fresh",
    "holds_pointers",
    "many_ended",
    "many_values",
    "not_handed_back",
    "add_note_once",
    "partitioner_failed",
    "shares_time",
    "wake_tasks",
]

log = get_log("pykafka4")

# Objects, pointers, typed pointers, functions, C strings of ctypes, and its wide strings; `Zf`, `Zd` and `Zg` are complex numbers.
_POINTERS: Final = re.compile("[OP&Xz]|Z(?![fdg])")
_FIELD_NAMES: Final = re.compile(":[^:]*:")
_ASYNC: Final = CO_COROUTINE | CO_ASYNC_GENERATOR


def fresh(error: BaseException | None) -> BaseException | None:
    """A copy of `error` without its traceback, to keep or to raise repeatedly; `error` itself if it cannot be copied.

    A traceback refers to frames, frames to handles and batches, a batch to its error: a cycle that would keep the records' memory.
    """
    if error is None:
        return None
    try:
        return error.again() if isinstance(error, KafkaError) else copy.copy(error)
    except Exception:  # such as an application's exception whose constructor does not accept `args`
        return error


def holds_pointers(form: str) -> bool:
    """Whether a buffer of the format `form` (of struct, numpy or ctypes) holds pointers, which mean nothing elsewhere."""
    return _POINTERS.search(_FIELD_NAMES.sub("", form)) is not None


def partitioner_failed(topic: str, function: Callable[..., Any], error: Exception) -> KafkaError:
    return KafkaError(f"{topic}: the partitioner {_named(function)} raised {type(error).__name__}: {error}; the record was not sent")


def chosen_partition(topic: str, function: Callable[..., Any], chosen: object, count: int) -> int:
    """The partition that an application's partitioner has `chosen`, as an int. Raises TypeError or ValueError, naming the partitioner."""
    try:
        number = None if isinstance(chosen, bool) else operator.index(chosen)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{topic}: the partitioner {_named(function)} returned {type(chosen).__name__}; it must return an int")
    if not 0 <= number < count:
        wanted = f"an int from 0 to {count - 1}"
        raise ValueError(f"{topic}: the partitioner {_named(function)} returned {shown(number)}; it must return {wanted}")
    return number


def _named(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


class Waker:
    """An internal callback, which only wakes a task.

    Usually the thread that sets the outcome calls the waker. If the waker is added after the outcome, the callback executor calls it.
    """

    __slots__ = ("_wake",)

    def __init__(self, wake: Callable[[], object]) -> None:
        """`wake()` must never wait: the loop may call it."""
        self._wake = wake

    def __call__(self, delivery: object) -> None:
        self._wake()


def wake_tasks(pairs: Iterable[tuple[Any, Any]], client_id: str) -> list[tuple[Any, Any]]:
    """Call the wakers among the (delivery, callback) pairs of a batch; return the other pairs."""
    others = []
    for pair in pairs:
        if type(pair[1]) is not Waker:
            others.append(pair)
            continue
        try:
            pair[1](pair[0])
        except Exception:  # one task that cannot be woken must not keep the others asleep
            log.exception("%s: a task that awaits a delivery could not be woken", client_id)
    return others


def drops_of(drops: dict[str, dict[str, dict[int, Any]]], topic: str, code: str, client_id: str, cause: object) -> dict[int, Any]:
    """The records of `topic` dropped for one reason, by partition: an entry of `drops`, made and logged with the first record."""
    reasons = drops.setdefault(topic, {})
    made: dict[int, Any] = {}
    known = reasons.setdefault(code, made)
    if known is made:
        log.warning("%s: %s: records are dropped: %s (%s); stats() counts them", client_id, topic, code, cause, topic=topic)
    return known


def dropped_rows(taken: list[Any]) -> Iterator[tuple[str, int, str, int, int, int]]:
    """The rows of `taken`, from `Accumulator.take_dropped`: (topic, partition or -1, reason, count, lowest and highest timestamp).

    `taken` is a flat list: a tuple for each of thousands of partitions would make the garbage collector run on the loop.
    """
    items = iter(taken)
    return zip(items, items, items, items, items, items, strict=True)


def checked_callback(topic: str, what: str, callback: Any) -> Any:
    """Raises TypeError if `callback` is not callable, or is an async function."""
    if not callable(callback):
        raise TypeError(f"{topic}: {what} must be callable, not {type(callback).__name__}")
    function = callback
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    flags = getattr(code, "co_flags", 0)
    if isinstance(flags, int) and flags & _ASYNC:
        raise TypeError(
            f"{topic}: {what} is the coroutine function {_named(callback)}, and nobody would await it; pass a function that is not async"
        )
    return callback


def shares_time(values: object, keys: object) -> bool:
    """Whether neighbouring records of a `send_many` may share a timestamp. Lists and tuples yield all items without a wait."""
    return type(values) in (list, tuple) and (keys is None or type(keys) in (list, tuple))


def add_note_once(error: BaseException, begin: str, end: str) -> None:
    """Add the note `begin` + `end` to `error`, in place of a note with the same beginning.

    Otherwise an exception that is raised again and again would collect notes.
    """
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, list):
        notes[:] = [known for known in notes if not (isinstance(known, str) and known.startswith(begin))]
    with contextlib.suppress(Exception):  # an exception of the application may refuse notes
        error.add_note(begin + end)


def many_values(topic: str, values: Any, keys: Any) -> tuple[Iterable[Any], Iterator[Any] | None]:
    """(values, keys or None) of `send_many`, to iterate over. Raises TypeError or ValueError, naming the argument."""
    values = _items(topic, "values", "value", values)
    if keys is None:
        return values, None
    keys = _items(topic, "keys", "key", keys)
    if isinstance(values, Sized) and isinstance(keys, Sized) and len(values) != len(keys):
        raise ValueError(f"{topic}: keys has {len(keys)} items, but values has {len(values)}")
    return values, iter(keys)


def _items(topic: str, what: str, one: str, items: Any) -> Iterable[Any]:
    if isinstance(items, (str, bytes, bytearray, memoryview, Mapping)) or not hasattr(items, "__iter__"):
        raise TypeError(f"{topic}: {what} must be a list or another iterable with a {one} for each record, not {type(items).__name__}")
    columns = getattr(items, "to_pylist", None)  # an Arrow array: iteration over it yields scalars, not bytes
    return columns() if columns is not None else items  # type: ignore[no-any-return]


def many_ended(error: BaseException, topic: str | None, accepted: list[Any]) -> None:
    """Note the number of accepted records on `error`, which ended a `send_many`; store their handles as `error.accepted`.

    `topic` is None if the records name their topics.
    """
    count, where = len(accepted), "of ProducerRecords" if topic is None else f"to {topic!r}"
    add_note_once(
        error,
        "pykafka4: send_many ",
        f"{where} ended at record {count}, counted from 0; the records before it were accepted, "
        "and `accepted` of this exception has their Deliveries",
    )
    with contextlib.suppress(AttributeError):  # the class of `error` may refuse this attribute
        error.accepted = accepted  # type: ignore[attr-defined]


def not_handed_back(client_id: str, topic: str, partition: int, count: int, error: Exception) -> None:
    log.warning(
        "%s: %s-%s: a raw batch was not delivered, and its records (%d) cannot be handed back: %s",
        client_id,
        topic,
        partition,
        count,
        error,
    )
