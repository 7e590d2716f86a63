"""`python -m pykafka4`. Rule: without the packages of the command line it says how to install them; the client does not need them.

`agent`, `demo` and `send` need none of them.
Ctrl-C ends it without a traceback at any time, also while its modules are imported. SIGTERM and SIGHUP do the same: a consumer leaves its
group, and a topic of `bench` is deleted.
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
INTERRUPTED = 130  # as shells report it
YOUNG_OBJECTS = 20_000  # between two collections of cyclic garbage; Python has 700


def main() -> int:
    """Run the command line; returns the exit code."""
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
            f"without them there are: pykafka4 {', '.join(WITHOUT_PACKAGES)} (each with --help)\n"
        )
        return 1
    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP; nohup ignores it
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    _collect_less()
    from pykafka4.cli.main import run

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: a name that it cannot write ends no table
    return run(sys.argv[1:])


def _run_program(name: str, program: Callable[[list[str]], int]) -> int:
    """The exit code of a command with a parser of its own."""
    try:
        try:
            code = program(sys.argv[2:])
        except SystemExit as ended:  # of --help, and of wrong options
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
    """Imports make tens of thousands of objects that stay. Looking at them again and again took a quarter of the CPU of a short command.

    Records are no part of cyclic garbage, so collections that are further apart cost no memory for them. At the end of the process,
    when `freeze` hides all objects from the last collections, the system frees them at once.
    """
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    atexit.register(gc.freeze)


if __name__ == "__main__":
    sys.exit(main())
