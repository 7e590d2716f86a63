"""Passes the messages of an input to the Intake, and counts messages and bytes."""

from __future__ import annotations

from collections.abc import Sequence

from pykafka4.agent.inputs.counters import InputCounters
from pykafka4.agent.message import Intake, Message, Reason, Refused, Source

__all__ = ["Entrance"]


class Entrance:
    """The way from one input to the Intake, with the input's counts."""

    def __init__(self, intake: Intake, source: Source, counters: InputCounters) -> None:
        self.source, self.counts = source, counters.of(source)
        self._intake, self._refused = intake, counters.refused

    def take(self, size: int, messages: list[Message], refused: Sequence[tuple[bytes, Refused]]) -> None:
        """Pass on the messages and refused bytes from `size` bytes of datagrams or complete frames."""
        counts = self.counts
        counts.forwarded += len(messages)
        counts.forwarded_bytes += size
        for data, why in refused:
            counts.forwarded_bytes -= len(data)
            self.refuse(data, why)
        if messages:
            self._intake.accept(messages, self.source)

    def refuse(self, data: bytes, why: Refused) -> None:
        self.counts.refused += 1
        self.counts.refused_bytes += len(data)
        self._refused[why.reason] = self._refused.get(why.reason, 0) + 1
        self._intake.refuse(data, why, self.source)

    def end_unclean(self, data: bytes) -> None:
        """Count a connection that was reset, or ended inside a message; `data` is the beginning of that message."""
        self.counts.unclean_ends += 1
        self.refuse(data, Refused(Reason.UNCLEAN_TCP if self.source is Source.TCP else Reason.UNCLEAN_UNIX))
