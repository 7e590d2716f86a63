"""The agent's log on a standard error that nobody reads for a while."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from pykafka4.agent.service import logs
from pykafka4.agent.service.logs import Logs
from tests.net.net_helpers import SECONDS, until

LONG = "x" * 100_000  # more than a pipe holds


def test_the_last_line_counts_the_dropped_lines_although_the_queue_was_full_at_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(logs, "STDERR", writer)
    monkeypatch.setattr(logs, "MOST_WAITING", 2)
    before = logging.getLogger().handlers.copy()
    log, taken = Logs("INFO", {}), [b""]

    def read_after_the_close_has_begun() -> None:
        until(lambda: logging.getLogger().handlers == before, "the close")
        while data := os.read(reader, 65536):
            taken.append(data)

    thread = threading.Thread(target=read_after_the_close_has_begun)
    thread.start()
    said = logging.getLogger("pykafka4.agent")
    said.info(LONG)
    taken.append(os.read(reader, 1))  # now the writing thread waits for the pipe
    for number in range(5):
        said.info("line %d", number)
    log.close()
    os.close(writer)
    thread.join(SECONDS)
    os.close(reader)
    lines = b"".join(taken).decode().splitlines()
    assert [line.partition(" INFO ")[2] for line in lines[:3]] == [LONG, "line 0", "line 1"]
    assert lines[3].endswith(" WARNING lines of the log that were dropped, because standard error was too slow: 3")
