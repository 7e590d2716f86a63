"""Every Python block of the documentation runs, page by page, against the model cluster; no link is broken.

`localhost:9092` in a block is the test's server. The topic `orders` exists, with two partitions and some records. Other
set-up for a block is in a comment on its page (`<!-- invisible-code-block: python`), which readers do not see.
"""

from __future__ import annotations

import logging
import re
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


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_are_not_broken(page: Path) -> None:
    broken = [link for link, _ in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert broken == []
