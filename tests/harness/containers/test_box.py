"""The machine's image: nothing of its making outlives the process that makes it."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import tarfile
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import psutil
import pytest

from integration.docker.no_registry import box
from integration.waiting import until
from tests.harness.private import obstacle

ROOT = Path(__file__).parents[3]
MAKER = """
import sys
from integration.docker.no_registry import box
box.run(["bash", "-c", 'bash -c "exec -a $0 sleep 600" $0 & echo started >$1; wait', *sys.argv[1:]])
"""


def named(mark: str) -> list[psutil.Process]:
    """The processes that were given that name."""
    return [process for process in psutil.process_iter(["cmdline"]) if (process.info["cmdline"] or [""])[0] == mark]


@pytest.mark.vagrant
@pytest.mark.smoke
def test_processes_started_for_an_image_end_with_a_killed_maker(tmp_path: Path) -> None:
    if obstacle():
        pytest.skip(obstacle())
    mark = f"made-{uuid.uuid4().hex}"
    with subprocess.Popen([sys.executable, "-c", MAKER, mark, str(tmp_path / "started")], cwd=ROOT) as maker:
        try:
            until(lambda: named(mark), 30, "the maker's grandchild to start")
            maker.send_signal(signal.SIGKILL)
            until(lambda: not named(mark), 10, "the maker's grandchild to end")
        finally:
            maker.kill()
            for process in named(mark):
                process.kill()


def test_an_image_in_the_making_has_no_name_that_a_killed_maker_could_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYKAFKA4_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(box, "java_home", lambda: tmp_path / "java")
    public = tmp_path / "key.pub"
    public.write_text("a key")
    base = tmp_path / "system.tar"
    with tarfile.open(base, "w") as archive:
        archive.addfile(tarfile.TarInfo("./etc/debian_version"), io.BytesIO())
    seen: dict[str, object] = {}

    def import_image(src: BinaryIO, repository: str, tag: str, changes: list[str]) -> None:
        with tarfile.open(fileobj=src) as archive:
            seen.update(members=archive.getnames(), files=list((tmp_path / "cache").iterdir()), name=f"{repository}:{tag}")

    box.load(SimpleNamespace(api=SimpleNamespace(import_image=import_image)), "pykafka4/machine:x-1", base, public)
    assert seen == {
        "members": ["./etc/debian_version", "./usr/bin/java", "./usr/sbin/boot", "./etc/ssh/authorized_keys"],
        "files": [],
        "name": "pykafka4/machine:x-1",
    }
