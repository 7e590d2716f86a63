"""`tools/prepare` on a machine that lacks something."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UTILITIES = ("cat", "cut", "date", "id", "mkdir", "sed", "sleep", "tail", "tr")


def prepare(path: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run it in a copy, on a path that has only the utilities and the given scripts."""
    tree, found = path / "tree", path / "bin"
    (tree / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "prepare", tree / "tools")
    found.mkdir()
    for name in set(UTILITIES) - programs.keys():
        (found / name).symlink_to(shutil.which(name) or name)
    for name, text in programs.items():
        script = found / name.replace("_", "-")
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
    environment = {**os.environ, "PATH": str(found)}
    environment.pop("PYTHON", None)
    return subprocess.run(["/bin/sh", str(tree / "tools" / "prepare"), "base"], env=environment, capture_output=True, text=True, timeout=60)


def test_missing_python_is_named_with_the_command_where_nothing_may_be_installed(tmp_path: Path) -> None:
    ended = prepare(tmp_path)
    assert ended.returncode == 1
    assert ended.stderr == "python3 is missing: pykafka4 needs Python 3.11 or newer; apt-get install -y python3 python3-venv\n"


def test_missing_python_is_installed_by_root_with_apt_get(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    ended = prepare(tmp_path, id="echo 0", env='while [ "${1#*=}" != "$1" ]; do shift; done; exec "$@"', apt_get=f'echo "$@" >>{calls}')
    assert calls.read_text().splitlines() == ["update", "install -y --no-install-recommends python3 python3-venv python3-dev"]
    assert "no Python 3.11 or newer with venv: apt-get install -y python3 python3-venv python3-dev" in ended.stderr
    assert ended.returncode == 1  # this apt-get has installed nothing


def test_failed_installation_shows_what_apt_get_said(tmp_path: Path) -> None:
    ended = prepare(tmp_path, id="echo 0", apt_get="echo 'E: no network'; exit 100")
    assert "E: no network" in ended.stderr
    assert ended.returncode == 1
