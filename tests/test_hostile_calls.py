"""Hostile arguments of the public API, in a process of its own: it does not crash, the loop goes on, no other record is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CALLS = 400
TIMES = int(os.environ.get("PYKAFKA4_FUZZ", "1"))  # `make fuzz`: so many times the four runs, from another first seed
FIRST = int(os.environ.get("PYKAFKA4_FUZZ_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 4 * TIMES))
def test_no_argument_of_the_public_api_kills_the_interpreter_the_loop_or_another_record(seed: int) -> None:
    command = [sys.executable, "-m", "tests.net.hostile_calls", str(seed), str(CALLS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.stdout.endswith("survived\n"), f"exit {done.returncode}\n{done.stderr[-4000:]}"
    assert done.returncode == 0
