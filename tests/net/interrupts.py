"""A signal at every place where the interpreter can deliver one. Invariant: one per run; a KeyboardInterrupt comes out of `act`.

    for place in interrupts(lambda: producer.send("t", b"x")):
        ...  # the client must still work; `place` says where this run was interrupted

`act` is called again and again: the first run is interrupted at the first place, the next at the second and so on, until a run ends
undisturbed. Every run has a thread of its own: an exception raised between the bytecodes of an `except` block can stay in
`sys.exc_info()` of its thread for good. `handled` runs a signal handler at each place instead.

Where a run is expensive a sweep takes a share of the places: the same on every run unless
PYKAFKA4_FUZZ_SEED selects another one. `make fuzz` (PYKAFKA4_FUZZ) takes all places.

Places are bytecodes of the modules in `within` that this thread executes. CPython 3.11 delivers
signals only when a function starts or resumes, after a call and at a backward jump. The call of a Python function does not count if its
result is returned: the interpreter goes on in the caller without a look. `everywhere=True` interrupts at all other bytecodes as
well, which is more than the interpreter can do (a `with lock:` block, safe in practice, does not survive an interrupt just before it calls
`__exit__`).
"""

from __future__ import annotations

import contextlib
import dis
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pykafka4

PACKAGE = str(Path(pykafka4.__file__).parent)
# They change several things in one call, and an interrupt there can break a batch. (What is read is decoded by other modules.)
PLAIN_CORE = (
    "reference.py",
    "_plain_account.py",
    "_plain_arguments.py",
    "_plain_batch.py",
    "_plain_delivery.py",
    "_plain_parking.py",
    "_plain_raw_batch.py",
    "_plain_topic.py",
    "common.py",
    "encoder.py",
    "policy.py",
)
STDLIB = (threading.__file__,)  # Python code that the application's waits run
EVERYTHING = (PACKAGE, *STDLIB)
DEADLINE_S = 60.0
CHECKED = {"RESUME", "JUMP_BACKWARD", "CALL", "CALL_FUNCTION_EX", "CALL_KW"}  # after these the interpreter looks for signals


def share(step: int) -> tuple[int, int]:
    """(first place, step) of a sweep that takes one of `step` places; PYKAFKA4_FUZZ_SEED selects which. With PYKAFKA4_FUZZ: all places."""
    if os.environ.get("PYKAFKA4_FUZZ"):
        return 1, 1
    return 1 + int(os.environ.get("PYKAFKA4_FUZZ_SEED", "0")) % step, step


class Interrupted(KeyboardInterrupt):
    """The interrupt of this harness; its text is the place."""


class _Tracer:
    def __init__(self, at: int, within: tuple[str, ...], everywhere: bool, handler: Callable[[], object] | None = None) -> None:
        self.at, self.within, self.everywhere, self.handler = at, within, everywhere, handler
        self.seen = 0
        self.place = ""
        self._before: dict[FrameType, int] = {}  # offset of the bytecode that a frame executed last
        self._returned: FrameType | None = None  # the frame that got the last result of a Python function
        self._names: dict[Any, dict[int, str]] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        path = frame.f_code.co_filename
        if not path.startswith(self.within) or (path.endswith(PLAIN_CORE) and frame.f_code.co_qualname != "Section.__call__"):
            return None
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            self._step(frame)
        elif event == "return":
            self._before.pop(frame, None)
            self._returned = frame.f_back
        return self

    def _step(self, frame: FrameType) -> None:
        before = self._before.get(frame)
        self._before[frame] = frame.f_lasti
        if not self.everywhere and before is not None and self._name(frame, before) not in CHECKED:
            return
        if not self.everywhere and self._returned is frame and self._name(frame, frame.f_lasti) == "RETURN_VALUE":
            return
        self.seen += 1
        if self.seen >= self.at and not _in_finalizer(frame):
            sys.settrace(None)
            code = frame.f_code
            self.place = f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_qualname} {self._name(frame, frame.f_lasti)}"
            if self.handler is None:
                raise Interrupted(self.place)
            self.handler()

    def forget_frames(self) -> None:
        self._before.clear()
        self._returned = None

    def _name(self, frame: FrameType, offset: int) -> str:
        code = frame.f_code
        if code not in self._names:
            self._names[code] = {step.offset: step.opname for step in dis.get_instructions(code)}
        return self._names[code].get(offset, "")


def _in_finalizer(frame: FrameType | None) -> bool:
    """Whether `weakref.finalize` runs this: the interpreter ignores every exception there."""
    while frame is not None:
        if frame.f_code.co_filename == weakref.__file__:
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """A block without interrupts: for what the test itself does inside `act`, in a predicate or listener."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


def interrupted(
    act: Callable[[], object],
    at: int,
    *,
    within: tuple[str, ...] = EVERYTHING,
    everywhere: bool = False,
    handler: Callable[[], object] | None = None,
) -> str | None:
    """Run `act` with the interrupt, or `handler`, at the `at`-th place; where that was, None if `act` ended before."""
    tracer = _Tracer(at, within, everywhere, handler)
    errors: list[BaseException] = []

    def run() -> None:
        gc.disable()  # it may run finalizers in the middle of `act`, also of other tests' handles, and they swallow an interrupt
        sys.settrace(tracer)
        try:
            act()
        except BaseException as error:
            errors.append(error)
        finally:
            sys.settrace(None)
            gc.enable()

    thread = threading.Thread(target=run, name="interrupted")
    thread.start()
    thread.join(DEADLINE_S)
    assert not thread.is_alive(), f"act did not end within {DEADLINE_S:g} s; interrupted at {tracer.place or 'no place'}"
    error = errors.pop() if errors else None  # no cycle keeps the interrupted frames, and what they hold, alive
    tracer.forget_frames()
    if error is not None and not isinstance(error, Interrupted):
        raise error
    assert error is not None or handler is not None or not tracer.place, f"the interrupt at {tracer.place} was swallowed"
    return tracer.place or None


def interrupts(
    act: Callable[[], object], *, step: int = 1, within: tuple[str, ...] = EVERYTHING, everywhere: bool = False, most: int = 20_000
) -> Iterator[str]:
    """Interrupt `act` at its first place, then at the next … (a share of them, see `share`); yields the place after each such run."""
    at, step = share(step)
    while (place := interrupted(act, at, within=within, everywhere=everywhere)) is not None:
        yield place
        at += step
        assert at < most * step, "act never ends undisturbed"


def handled(act: Callable[[], object], handler: Callable[[], object], *, step: int = 1, most: int = 20_000) -> Iterator[str]:
    """Run `act` again and again, `handler` at its first place, then at the next … (a share of them, see `share`); yields each place."""
    at, step = share(step)
    while (place := interrupted(act, at, handler=handler)) is not None:
        yield place
        at += step
        assert at < most * step, "act never ends undisturbed"
