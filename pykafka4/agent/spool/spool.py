"""Spool: the folder with the FIFOs of all topics, its bound and its lock.

The router's part, for each list of messages that an input hands over:

    for message in messages:
        if spool.takes(topic):         # its older messages are on disk
            spool.add(message)         # never raises; discards with SPOOL_FULL or SPOOL_FAILED
            continue
        try:
            producer.send(...)
        except BufferFull:             # no room; a rate limit is another matter
            spool.add(message)
    spool.write()                      # one write per topic
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka4.agent.message import Message
from pykafka4.agent.settings.values import SpoolSettings
from pykafka4.agent.spool.values import Discards, Sender, SpoolState
from pykafka4.records import ProducerRecord

__all__ = ["Spool", "SpoolUnusable"]


class SpoolUnusable(Exception):
    """The folder cannot be used: it is no folder, not accessible, or another agent has it."""


class Spool:
    """See the module. All methods are called on the agent's loop."""

    def __init__(self, settings: SpoolSettings, discards: Discards, empty: bytes | None) -> None:
        """Lock the folder and look what it holds; nothing is read yet. Raises SpoolUnusable.

        `empty` is what an empty key or value on disk becomes, as for the inputs.
        """
        raise NotImplementedError

    def takes(self, topic: str) -> bool:
        """Whether the topic's next message has to be added here: older ones are on disk, or `always` is set."""
        raise NotImplementedError

    def add(self, message: Message) -> None:
        """Put a message behind those of its topic, with the next `write`. Discards it if there is no room."""
        raise NotImplementedError

    def write(self) -> None:
        """Write what was added: one write per topic. Discards what the disk refuses."""
        raise NotImplementedError

    def state(self) -> SpoolState:
        """Counts, for the account and the page."""
        raise NotImplementedError

    def start(self, sender: Sender, window: int) -> None:
        """Begin to send what is on disk, at most `window` bytes of it unacknowledged at a time. Tasks of the running loop do it."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Send nothing more from here on; to be called before `Producer.close`. `add` and `write` still work."""
        raise NotImplementedError

    def close(self, undelivered: Sequence[ProducerRecord]) -> list[ProducerRecord]:
        """After `Producer.close`: put what it returned in front of the topics' messages, sync, unlock. Returns what there is no room for.

        Blocks while it writes. Records that were sent from the disk are not put back a second time: they are still there.
        """
        raise NotImplementedError
