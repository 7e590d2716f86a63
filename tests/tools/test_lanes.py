"""Lanes: targets side by side; a failed one runs again alone, and both runs are reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = """
good: ; @echo all well
first: ; @touch first
second: ; @test -e first
bad: ; @echo "tests/test_a.py::test_b: call failed"; echo "FAILED tests/test_a.py::test_b - assert 1 == 2"; false
busy: ; @case "$(MORE)" in *--last-failed*) echo 1 passed ;; *) echo "FAILED tests/test_c.py::test_d[x y] - TimeoutError"; false ;; esac
crashing: ; @test -e crashed || { touch crashed; echo "worker 'gw0' crashed while running 'test_h'"; exit 1; }; echo more: $(MORE).
endless: ; @echo "tests/test_e.py::test_f: call failed"; sleep 60
"""


@pytest.fixture
def lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "Makefile").write_text(MAKEFILE)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "tools.lanes", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout

    return run


def test_each_line_says_from_which_lane_it_is_and_targets_of_one_lane_follow_each_other(lanes) -> None:
    code, out = lanes("good", "first+second")
    assert code == 0
    assert "good   | all well\n" in out
    assert "passed  second" in out


def test_a_target_that_fails_alone_as_well_fails_the_run_and_names_its_tests(lanes) -> None:
    code, out = lanes("bad+good")
    assert code == 1
    assert "passed  good" in out
    assert out.count("FAILED  bad") == 2
    assert out.count("    tests/test_a.py::test_b\n") == 2


def test_a_test_that_fails_beside_others_only_is_named_but_does_not_fail_the_run(lanes) -> None:
    code, out = lanes("busy", "good")
    assert code == 0
    report = out[out.index("of CPU") :]
    assert "FAILED  busy" in report
    assert "    tests/test_c.py::test_d[x y]\n" in report
    assert "passed  busy, 0 s: alone, after the others" in report


def test_a_target_whose_process_crashed_runs_again_whole(lanes) -> None:
    code, out = lanes("crashing")
    assert code == 0
    assert "== crashing: all tests run again, alone\ncrashing | more: .\n" in out


def test_a_run_that_is_ended_from_outside_names_the_tests_that_failed_until_then(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    command = [sys.executable, "-m", "tools.lanes", "endless"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    lanes = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert lanes.stdout is not None
    assert "call failed" in lanes.stdout.readline()
    os.killpg(lanes.pid, signal.SIGTERM)
    out, _ = lanes.communicate(timeout=30)
    assert "FAILED  endless" in out
    assert "    tests/test_e.py::test_f\n" in out


def test_the_error_of_a_failed_test_is_printed_before_the_run_is_killed(tmp_path: Path) -> None:
    tests = "import os, signal\ndef test_a(): assert 1 == 2\ndef test_b(): os.kill(os.getpid(), signal.SIGKILL)\n"
    (tmp_path / "test_killed.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "tests.failures", "-q", "test_killed.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode < 0
    assert "::test_a: call failed\nE   assert 1 == 2\n" in done.stdout
