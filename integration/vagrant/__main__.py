"""By hand. Rule: a shell (or one command) in which `vagrant` finds an engine, an image and a key; all machines go when it ends.

python -m integration.vagrant                          # a shell: vagrant up, vagrant status, vagrant halt kafka2, …
python -m integration.vagrant COMMAND …
python -m integration.vagrant --prepare                # make image and settings, run nothing
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from integration import prerequisites
from integration.dockerd import EngineFailed
from integration.jars import cache
from integration.vagrant.machines import Containers
from integration.vagrant_cluster import write_settings

SETTINGS = Path(__file__).with_name("settings")


def main(arguments: list[str]) -> int:
    prerequisites.require(*prerequisites.vagrant())
    write_settings(SETTINGS, 3)
    machines = Containers()
    try:
        environment = {**os.environ, **machines.open(), "VAGRANT_DEFAULT_PROVIDER": "docker", "VAGRANT_CHECKPOINT_DISABLE": "1"}
        environment["VAGRANT_DOTFILE_PATH"] = str(cache() / "vagrant" / "by-hand")
        if arguments == ["--prepare"]:
            print(environment["KAFKA_IMAGE"])
            return 0
        return subprocess.run(arguments or [os.environ.get("SHELL", "/bin/sh")], env=environment, check=False).returncode
    finally:
        machines.close()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (prerequisites.MissingPrerequisite, EngineFailed) as error:
        sys.exit(str(error))
