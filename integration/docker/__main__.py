"""Runs a shell, or one command, with DOCKER_HOST set to our own engine, unless DOCKER_HOST names an engine already.

python -m integration.docker [COMMAND …]
python -m integration.docker --clean        # remove the leftovers of crashed runs
"""

from __future__ import annotations

import os
import subprocess
import sys

from integration.docker.client import EngineFailed
from integration.docker.engine import Engine, clean
from integration.host.prerequisites import MissingPrerequisite


def main(arguments: list[str]) -> int:
    if arguments == ["--clean"]:
        print("\n".join(clean()) or "nothing to remove")
        return 0
    command = arguments or [os.environ.get("SHELL", "/bin/sh")]
    with Engine() as engine:
        return subprocess.run(command, env={**os.environ, "DOCKER_HOST": engine.host}, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (MissingPrerequisite, EngineFailed) as error:
        sys.exit(str(error))
