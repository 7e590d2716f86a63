"""Every Python block of the documentation runs, page by page, against the model cluster; no link is broken.

`localhost:9092` in a block is the test's server. The topic `orders` exists, with two partitions and some records. Other
set-up for a block is in a comment on its page (`<!-- invisible-code-block: python`), which readers do not see.

The programs and shell lines of the tutorial run on a real cluster. Its comments wait where a reader would look and wait.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

from pykafka4.testing import ModelServer

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
REAL = [DOCS / "clusters.md"]  # starts brokers
CODE = re.compile(r"^\s*```python$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(#[^)]*)?\)")
RECORDS = 40
TUTORIAL = DOCS / "guide" / "tutorial.md"
FILE = re.compile(r'^```python title="(\S+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^(?:```sh|<!-- invisible-code-block: sh)\n(.*?)^(?:```|-->)$", re.MULTILINE | re.DOTALL)
ORDERS = 10_000
PACE = ("PAUSE = 0.01 ", "PAUSE = 0.001 ")  # a reader needs time to look, a test does not


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


class Here(PythonEvaluator):
    """Runs a block with the address of the test's server, and a socket in the test's folder, in place of the documented ones."""

    def __init__(self, servers: str) -> None:
        super().__init__()
        self.servers = servers

    def __call__(self, example: Example) -> None:
        shown = example.parsed
        text = shown.replace("localhost:9092", self.servers).replace("/tmp/agent.sock", "agent.sock")
        example.parsed = type(shown)(text, shown.offset, shown.line_offset)
        super().__call__(example)


def run(page: Path, servers: str) -> int:
    """Run the blocks of `page`; how many ran."""
    blocks = list(Sybil(parsers=[CodeBlockParser("python", Here(servers))], path=str(page.parent), pattern=page.name).parse(page))
    for block in blocks:
        block.evaluate()
    return len(blocks)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # raised by the other clients
@pytest.mark.parametrize("page", [page for page in PAGES if CODE.search(page.read_text()) and page not in REAL], ids=name)
def test_the_code_of_a_page_runs(page: Path, kafka_server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # for files that a page writes
    monkeypatch.setattr(logging.getLogger("pykafka4"), "level", logging.NOTSET)  # put back afterwards, whatever a page sets
    kafka_server.create_topic("orders", partitions=2)
    for partition in (0, 1):
        kafka_server.produce("orders", *(f"earlier {n}" for n in range(RECORDS)), partition=partition)
    assert run(page, kafka_server.bootstrap_servers) >= len(CODE.findall(page.read_text()))


@pytest.mark.cluster
@pytest.mark.parametrize("page", REAL, ids=name)
def test_the_code_of_a_page_about_real_clusters_runs(page: Path) -> None:
    assert run(page, "localhost:9092") >= len(CODE.findall(page.read_text()))


@contextlib.contextmanager
def started(*command: str, folder: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has the command line in its PATH; it ends with the block, and so do the processes that it has started."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **environment}
    process = subprocess.Popen(command, cwd=folder, env=variables, text=True, stdout=subprocess.PIPE, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextlib.contextmanager
def brokers(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """The address of a real cluster, or of the one that the tutorial's `model.py` starts."""
    if kind == "real":
        yield request.getfixturevalue("cluster").bootstrap
        return
    with started("python", "model.py", folder=folder) as model:
        assert model.stdout is not None
        yield model.stdout.readline().strip().removeprefix("export PYKAFKA4_BOOTSTRAP=")


@pytest.mark.cluster
@pytest.mark.parametrize("kind", ["real", pytest.param("model", marks=pytest.mark.lengthy)])
def test_the_tutorial_loses_nothing_and_its_transactions_repeat_nothing(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    text = TUTORIAL.read_text()
    for file, code in FILE.findall(text):
        (tmp_path / file).write_text(code.replace(*PACE))
    (tmp_path / "tutorial.sh").write_text("".join(SHELL.findall(text)))
    with (
        brokers(kind, request, tmp_path) as servers,
        started("bash", "-e", "tutorial.sh", folder=tmp_path, PYKAFKA4_BOOTSTRAP=servers) as script,
    ):
        output, _ = script.communicate(timeout=280)
    assert script.returncode == 0, output
    billed, with_repeats, invoices, with_repeated_invoices = map(int, re.findall(r"^\d+$", output, re.MULTILINE))
    assert billed == ORDERS <= with_repeats
    assert invoices == with_repeated_invoices == ORDERS


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_are_not_broken(page: Path) -> None:
    broken = [link for link, _ in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert broken == []
