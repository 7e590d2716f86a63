"""Runs the command line (`python -m pykafka4`), or names the packages to install for it. The client and the commands `agent`, `demo` and
`send` do not need these packages.

Invariant: Ctrl-C in `_run` ends the program without a traceback, even while the modules of a command are being imported. SIGTERM and
SIGHUP do the same in the commands of `pykafka4.cli`, so `consume` closes its consumer, and `bench` deletes its topic.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.util
import io
import signal
import sys
from collections.abc import Callable

from pykafka4.cli.streams import explained, fill_closed, lose

__all__ = ["main"]

NEEDED = ("click", "rich")
WITHOUT_PACKAGES = {  # commands with a parser of their own
    "agent": "pykafka4.agent.service.main",
    "demo": "pykafka4.testing.demo",
    "send": "pykafka4.agent.sending",
}
INTERRUPTED = 130  # the exit code that shells report for a program that Ctrl-C has ended
YOUNG_OBJECTS = 20_000  # new objects between two collections of cyclic garbage; Python's default is 700 or 2,000, depending on its version


def main() -> int:
    fill_closed()
    try:
        return _run()
    except KeyboardInterrupt:
        return INTERRUPTED


def _run() -> int:
    if sys.argv[1:2] and (module := WITHOUT_PACKAGES.get(sys.argv[1])) is not None:
        return _run_program(sys.argv[1], importlib.import_module(module).main)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"the command line needs {' and '.join(missing)}: pip install 'pykafka4[cli]'\n"
            f"these commands work without pykafka4[cli]: pykafka4 {', '.join(WITHOUT_PACKAGES)} (each with --help)\n"
        )
        return 1
    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP; under nohup it stays ignored
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    _collect_less()
    from pykafka4.cli.main import run

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr does: a name that cannot be encoded must not break off a table
    return run(sys.argv[1:])


def _run_program(name: str, program: Callable[[list[str]], int]) -> int:
    try:
        try:
            code = program(sys.argv[2:])
        except SystemExit as ended:  # raised after --help, and for wrong options
            code = int(ended.code or 0)
        sys.stdout.flush()
    except BrokenPipeError:
        lose(sys.stdout)
        return 0
    except OSError as error:
        lose(sys.stdout)
        sys.stderr.write(f"pykafka4 {name}: {explained(error)}\n")
        return 1
    return code


def _collect_less() -> None:
    """Search for cyclic garbage less often. Imports create tens of thousands of long-lived objects, and the repeated search among them
    takes a quarter of the CPU time of a short command. Records form no reference cycles, so they are freed without a search.
    At exit, `freeze` hides all objects from the last collections, and the operating system frees their memory at once.
    """
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    atexit.register(gc.freeze)


if __name__ == "__main__":
    sys.exit(main())
