"""`python -m pykafka4`. Rule: without the packages of the command line it says how to install them; the client does not need them."""

from __future__ import annotations

import importlib.util
import io
import sys

__all__ = ["main"]

NEEDED = ("click", "rich")


def main() -> int:
    """Run the command line; returns the exit code."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(f"the command line needs {' and '.join(missing)}: pip install 'pykafka4[cli]'\n")
        return 1
    from pykafka4.cli.main import run

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: a name that it cannot write ends no table
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
