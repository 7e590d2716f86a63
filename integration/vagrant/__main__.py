"""Runs a shell, or one command, in which `vagrant` finds an engine, an image and a key. Invariant: all machines are removed when it ends.

python -m integration.vagrant                          # a shell: vagrant up, vagrant status, vagrant halt kafka2, …
python -m integration.vagrant COMMAND …
python -m integration.vagrant --prepare                # make the image, run nothing

The program prints the addresses of the brokers, on a free network; $KAFKA_BOOTSTRAP has them, too. $KAFKA_NODES is the number of brokers.
"""

from __future__ import annotations

import os
import subprocess
import sys

from integration.docker.client import EngineFailed
from integration.host import prerequisites
from integration.vagrant.cluster import CLIENT, write_settings
from integration.vagrant.containers import Containers
from integration.vagrant.tool import fixed

NODES = 3


def main(arguments: list[str]) -> int:
    machines = Containers()
    prerequisites.require(*prerequisites.check(), *machines.missing())
    try:
        environment = by_hand(machines)
        if arguments == ["--prepare"]:
            print(environment["KAFKA_IMAGE"])
            return 0
        print(f"`vagrant up` starts brokers at {environment['KAFKA_BOOTSTRAP']}", file=sys.stderr, flush=True)
        return subprocess.run(arguments or [os.environ.get("SHELL", "/bin/sh")], env=environment, check=False).returncode
    finally:
        machines.close()


def by_hand(machines: Containers) -> dict[str, str]:
    """The state of `vagrant` belongs to this shell, and is removed with the machines."""
    told = machines.open()
    nodes = int(os.environ.get("KAFKA_NODES", NODES))
    settings = machines.engine.scratch / "settings"
    write_settings(settings, nodes)
    return {
        "KAFKA_SETTINGS": str(settings),
        **os.environ,
        **fixed(machines.engine.scratch / "state"),
        **told,
        "VAGRANT_DEFAULT_PROVIDER": "docker",
        "KAFKA_BOOTSTRAP": ",".join(f"{machines.address(node)}:{CLIENT}" for node in range(1, nodes + 1)),
    }


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (prerequisites.MissingPrerequisite, EngineFailed) as error:
        sys.exit(str(error))
