"""Runs one contender in its own process: `python -m benchmarks.contender SPEC` prints one line of JSON, or fails.

No other module of the harness imports a client, so that no contender shares memory, threads or warm caches with another.
`benchmarks.against` runs this module in a checkout of an older commit, so its name and `Spec` must not change.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs

from benchmarks.meter import Meter, Spec

MODULES = {"confluent": "benchmarks.clients.confluent", "pykafka4": "benchmarks.clients.ours"}
TIMEOUT_S = 600.0


def run(spec: Spec, checkout: Path | None = None) -> dict[str, Any]:
    """Run a contender in a fresh process; with `checkout`, the code of another checkout, in its virtual environment.

    The run fails if the compiled core cannot be imported: the plain core is measured only with PYKAFKA4_IMPL=python.
    """
    python = sys.executable if checkout is None else str(checkout / ".venv" / "bin" / "python")
    command = [python, "-m", "benchmarks.contender", json.dumps(attrs.asdict(spec))]
    environment = {"PYKAFKA4_IMPL": "compiled", **os.environ}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False, cwd=checkout, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{spec.client} {spec.case} failed; its output is above")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    spec, meter = Spec(**json.loads(sys.argv[1])), Meter()
    importlib.import_module(MODULES[spec.client]).CASES[spec.case](spec, meter)
    print(json.dumps(meter.result()))


if __name__ == "__main__":
    main()
