"""Collects the figures of a running agent from its parts, for the pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from pykafka4.agent.account.values import Account, Report
from pykafka4.agent.http.look import AgentLook, InputState
from pykafka4.agent.inputs.counters import InputCounters
from pykafka4.agent.message import Source
from pykafka4.agent.settings.values import InputSettings
from pykafka4.agent.spool.values import SpoolState
from pykafka4.producer import Producer

__all__ = ["AgentView"]

REFRESH_S: Final = 10.0  # the wait for new metadata after POST /metadata_update


class AgentFigures(Protocol):
    """The methods of Books that the view calls."""

    def account(self) -> Account: ...
    def counters(self, account: Account) -> Mapping[str, int]: ...
    def unfinished_report(self) -> Report: ...
    def finished_report(self) -> Report | None: ...
    def total_report(self) -> Report: ...


class AgentView:
    """The running agent, as its pages see it. Implements WatchedAgent, which documents the methods."""

    def __init__(
        self,
        producer: Producer,
        books: AgentFigures,
        inputs: tuple[InputSettings, InputCounters],
        version: str,
        report_interval_s: float,
        spool: Callable[[], SpoolState] | None = None,
    ) -> None:
        """Any thread may call `spool`."""
        self.version, self.started_at, self.report_interval_s = version, time.time(), report_interval_s
        self.inputs_open = False
        self._producer, self._books, self._spool = producer, books, spool
        self._settings, self._counters = inputs

    def look(self) -> AgentLook:
        # The spool's state and the account come from two calls on the loop, so a page may show a message on disk that its account counts in
        # the producer.
        spool = None if self._spool is None else self._spool()
        return AgentLook(time.time(), self._books.account(), self._producer.status(), self._inputs(), spool, self._settings.max_buffer)

    def counters(self, account: Account) -> Mapping[str, int]:
        return self._books.counters(account)

    def unfinished_report(self) -> Report:
        return self._books.unfinished_report()

    def finished_report(self) -> Report | None:
        return self._books.finished_report()

    def total_report(self) -> Report:
        return self._books.total_report()

    def refresh_metadata(self) -> None:
        self._producer.refresh_metadata(timeout=REFRESH_S)

    def unready(self) -> str | None:
        return None if self.inputs_open else "the inputs are not open"

    def _inputs(self) -> tuple[InputState, ...]:
        settings = self._settings
        addresses = {
            Source.UNIX_DATAGRAM: None if settings.unix_datagram is None else str(settings.unix_datagram.path),
            Source.UNIX_STREAM: None if settings.unix_stream is None else str(settings.unix_stream.path),
            Source.TCP: None if settings.tcp is None else f"{settings.tcp.host}:{settings.tcp.port}",
        }
        return tuple(self._input(source, address) for source, address in addresses.items() if address is not None)

    def _input(self, source: Source, address: str) -> InputState:
        counts = self._counters.of(source)
        clients = None if source is Source.UNIX_DATAGRAM else counts.open
        return InputState(source, address, self.inputs_open, counts.forwarded, counts.read_bytes, counts.refused, clients)
