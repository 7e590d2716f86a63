"""No use of a core's objects, however wrong, ends the interpreter."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.wire.records.hot_world import World, compiled, each_core

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(compiled is None, reason="the compiled core is not built")
def test_no_call_of_any_object_ends_the_interpreter() -> None:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.wire.records.hostile_objects"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[-1]) > 20_000


@pytest.mark.skipif(compiled is None, reason="the compiled core is not built")
@pytest.mark.parametrize("name", ["Batch", "Delivery", "Hooks", "RecordsBuffer", "Parked", "Settlement", "Topic"])
def test_objects_of_an_accumulator_cannot_be_made_by_hand(name: str) -> None:
    kind = getattr(compiled, name)
    for make in (kind, lambda: kind.__new__(kind), lambda: object.__new__(kind)):
        with pytest.raises(TypeError):
            make()


@pytest.mark.skipif(compiled is None, reason="the compiled core is not built")
@pytest.mark.parametrize("name", ["Accumulator", "Chunk", "Record"])
def test_objects_with_a_constructor_need_its_arguments_however_they_are_made(name: str) -> None:
    kind = getattr(compiled, name)
    for make in (kind, lambda: kind.__new__(kind), lambda: object.__new__(kind)):
        with pytest.raises(TypeError):
            make()


@each_core
def test_handles_cannot_be_copied_or_pickled(core: ModuleType) -> None:
    delivery = World(core).send()
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"cannot pickle .*Delivery"):
            take(delivery)


@each_core
def test_a_batch_is_sealed_by_its_own_accumulator_only(core: ModuleType) -> None:
    one, other = World(core), World(core)
    one.send()
    one.now += 1
    _, (due,), _ = one.acc.take(one.now)
    with pytest.raises(ValueError, match="another accumulator"):
        other.acc.seal(due)
    assert one.acc.seal(due)
