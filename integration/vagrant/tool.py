"""Runs the command `vagrant`, with its state in a folder of ours. Invariant: the command ends with this process."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

from integration.host.ward import Child, Ward, tail
from integration.waiting import until

__all__ = ["PROGRAMS", "Vagrant", "VagrantFailed", "fixed"]

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "vagrant": "it makes the machines; apt-get install -y --no-install-recommends vagrant",
    "ssh-keygen": "it makes the key that opens the machines; apt-get install -y openssh-client",
}


class VagrantFailed(RuntimeError):
    """Raised if a command ends with an error; the message has the end of its output."""


class Vagrant:
    """The machines whose state is in `folder`. `settings` are the variables that the Vagrantfile reads."""

    def __init__(self, folder: Path, ward: Ward, provider: str, settings: Mapping[str, str]) -> None:
        self.folder, self.ward = folder, ward
        self.environment = {**fixed(folder / "state"), "VAGRANT_DEFAULT_PROVIDER": provider, **settings}
        self.numbers = itertools.count(1)

    def run(self, *arguments: str, timeout: float) -> str:
        """Raises VagrantFailed, with the end of the output, if the command fails."""
        name = f"vagrant-{next(self.numbers)}"
        log = self.folder / f"{name}.log"
        assignments = [f"{key}={value}" for key, value in self.environment.items()]
        self.ward.start(name, ["env", *assignments, "vagrant", *arguments], log, self.folder)
        ended = until(lambda: self.ended(name), timeout, lambda: f"`vagrant {' '.join(arguments)}` to end{tail(log, 25)}")
        if ended.returncode != 0:
            raise VagrantFailed(f"`vagrant {' '.join(arguments)}` failed ({ended.returncode}):{tail(log, 25)}")
        return log.read_text(errors="replace")

    def ended(self, name: str) -> Child | None:
        child = self.ward.status()[name]
        return None if child.returncode is None else child


def fixed(state: Path) -> dict[str, str]:
    """Return the variables that are the same for every command."""
    return {
        "VAGRANT_CWD": str(ROOT),
        "VAGRANT_DOTFILE_PATH": str(state),
        "VAGRANT_CHECKPOINT_DISABLE": "1",
        "VAGRANT_NO_COLOR": "1",
    }
