"""Namespaces in which a test may change files and settings of a machine without changing this one."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


@functools.cache
def obstacle() -> str:
    """Why a script cannot have mounts, processes and links of its own here; empty when it can."""
    if os.geteuid() != 0:
        return "not root: only root can give a script folders of its own"
    if missing := [name for name in ("unshare", "ip") if not shutil.which(name)]:
        return f"{' and '.join(missing)} missing; apt-get install -y util-linux iproute2"
    probe = [*UNSHARE, "--net", "sh", "-c", "ip link set lo up && mount -t tmpfs none /opt"]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False)
    return f"namespaces are not permitted here: {done.stderr.strip()}" if done.returncode else ""
