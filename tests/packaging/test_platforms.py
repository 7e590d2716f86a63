"""Other platforms than Linux on x86-64: what can be proven of them here."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pykafka4.wire.records import hot

ROOT = Path(__file__).resolve().parents[2]
COMPILED = ROOT / "pykafka4/wire/records/compiled"

# ---------------------------------------------------------------- CRC-32C in hardware


def compiled_for(compiler: str, folder: Path, *options: str) -> Path:
    """tests/packaging/platform.c as a program."""
    program = folder / "crc"
    command = [compiler, "-O2", "-Wall", "-Werror", "-Wno-unused-function", *options, f"-I{COMPILED}"]
    subprocess.run([*command, "-o", str(program), str(ROOT / "tests/packaging/platform.c")], check=True, timeout=60)
    return program


def said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.fixture(scope="module")
def on_aarch64(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs the program for aarch64: here, or on an emulated processor. -march=armv8-a has no instruction for CRC-32C."""
    folder = tmp_path_factory.mktemp("aarch64")
    if platform.machine() == "aarch64" and shutil.which("cc"):
        return [str(compiled_for("cc", folder, "-march=armv8-a"))]
    compiler, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if compiler is None or emulator is None:
        pytest.skip("needs a compiler and an emulator: apt-get install -y gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user")
    return [emulator, "-cpu", "cortex-a53", str(compiled_for(compiler, folder, "-march=armv8-a", "-static"))]


def test_aarch64_uses_its_instruction_for_checksums(on_aarch64: list[str]) -> None:
    assert said(*on_aarch64) == "hardware"


def test_an_aarch64_processor_without_the_instruction_computes_the_same(on_aarch64: list[str]) -> None:
    assert said(*on_aarch64, "without") == "portable"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_this_processor_computes_the_same_as_the_portable_code(tmp_path: Path) -> None:
    assert said(str(compiled_for("cc", tmp_path))) in ("hardware", "portable")


# ---------------------------------------------------------------- Windows

# What CPython on Windows lacks and this package could use; the plain-Python core is the only one there.
WINDOWS = """
import os, select, selectors, sys
for module, names in {
    os: ("fork", "register_at_fork", "sysconf", "getuid", "getppid", "killpg", "sched_getaffinity", "writev"),
    select: ("poll", "epoll", "devpoll", "kqueue"),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "pwd", "grp", "resource", "termios"):
    sys.modules[name] = None
selectors.DefaultSelector = selectors.SelectSelector
sys.modules["pykafka4.net.pump._pump"] = None
import pykafka4.net.portable
pykafka4.net.portable.GATHERS = False
"""
USE = """
import threading
from pykafka4 import Consumer, Producer
from pykafka4.testing import ModelServer
from pykafka4.wire.records import hot

def send(producer, thread):
    for n in range(COUNT):
        producer.send("t", b"%d %d" % (thread, n), key=b"%d" % thread)

with ModelServer() as server:
    server.create_topic("t", partitions=3)
    with Producer(bootstrap_servers=server.bootstrap_servers, batch_size=2000) as producer:
        threads = [threading.Thread(target=send, args=(producer, n)) for n in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    found = {str(n).encode(): [] for n in range(4)}
    with Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        while sum(map(len, found.values())) < 4 * COUNT:
            for record in consumer.poll(10):
                found[record.key].append(record.value)
    for key, values in found.items():
        assert values == [b"%s %d" % (key, n) for n in range(COUNT)], key
print(hot.IMPLEMENTATION, hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled())
"""


def python(executable: str, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=200, check=False
    )


def test_the_client_works_without_what_windows_lacks() -> None:
    done = python(sys.executable, f"COUNT = 300\n{WINDOWS}{USE}", PYTHONPATH=str(ROOT), PYKAFKA4_IMPL="python")
    assert (done.stdout, done.stderr) == ("python False\n", "")


def test_on_windows_the_compiled_core_is_built_only_on_demand() -> None:
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    ask = (
        "import sys, setuptools, setuptools.command.build_ext, Cython.Build; sys.platform = 'win32'; "
        "setuptools.setup = lambda **given: print(len(given['ext_modules'])); "
        "Cython.Build.cythonize = lambda given, **options: given; exec(open('setup.py').read())"
    )
    for wanted, count in (("auto", 0), ("no", 0), ("yes", 2)):
        done = subprocess.run(
            [sys.executable, "-c", ask],
            cwd=ROOT,
            env={**os.environ, "PYKAFKA4_BUILD_EXTENSION": wanted},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.stdout, done.stderr) == (f"{count}\n", ""), wanted


def test_the_advice_on_windows_is_that_the_compiled_core_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert hot.advice() == "the compiled core is not built on Windows"


# ---------------------------------------------------------------- no GIL


@pytest.mark.skipif(hot.IMPLEMENTATION != "compiled", reason="the compiled core is not built, or not used")
def test_the_compiled_core_cannot_be_imported_without_the_gil() -> None:
    """Not even past `hot`, which chooses the other one there."""
    code = "import sys; sys._is_gil_enabled = lambda: False; import pykafka4.wire.records.compiled._hot"
    done = python(sys.executable, code)
    assert done.stderr.strip().endswith("ImportError: it relies on the GIL, which is off in this interpreter")


@pytest.fixture
def free_threaded(tmp_path: Path) -> tuple[str, str]:
    """(an interpreter without the GIL, a path with what is required of those packages that are pure Python)."""
    found = os.environ.get("PYKAFKA4_FREE_THREADED") or next(filter(None, map(shutil.which, ("python3.14t", "python3.13t"))), None)
    if found is None:
        pytest.skip("needs a free-threaded interpreter: python3.13t or python3.14t in PATH, or PYKAFKA4_FREE_THREADED=/path/to/it")
    for name in ("attr", "attrs", "crcmod"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        (tmp_path / name).symlink_to(Path(spec.origin).parent)
    return found, f"{ROOT}{os.pathsep}{tmp_path}"


@pytest.mark.parametrize("flag", ["0", "1", None])
def test_threads_without_the_gil_lose_and_break_nothing(free_threaded: tuple[str, str], flag: str | None) -> None:
    executable, path = free_threaded
    done = python(executable, f"import sys\nCOUNT = 2000\n{USE}", PYTHONPATH=path, **({} if flag is None else {"PYTHON_GIL": flag}))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"python {flag != '1'}\n"
