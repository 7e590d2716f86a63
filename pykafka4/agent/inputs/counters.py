"""Counts messages, bytes and connections of each input, under Dory's names where Dory has them. Invariant: only the loop changes counts."""

from __future__ import annotations

import attrs

from pykafka4.agent.message import Reason, Source

__all__ = ["InputCounters", "SourceCounters"]


@attrs.define
class SourceCounters:
    """Counts of an input since the start. `read_bytes` = `forwarded_bytes` + `refused_bytes` + bytes that connections keep."""

    read_bytes: int = 0
    forwarded: int = 0  # messages
    forwarded_bytes: int = 0
    refused: int = 0  # datagrams and frames that are not messages, invalid sizes, and unclean ends
    refused_bytes: int = 0
    connections: int = 0  # accepted since the start
    open: int = 0  # connections that are open now
    clean_ends: int = 0
    unclean_ends: int = 0  # ends inside a message, and resets
    closed_for_size: int = 0  # connections that sent a size that is invalid or too large
    closed_for_room: int = 0  # connections that lost their room to others that waited for it
    accept_pauses: int = 0  # no file descriptor or memory was left, or too many connections were open
    errors: int = 0  # failed reads and accepts


@attrs.define
class InputCounters:
    """Counts of all inputs; an input that is not configured has zeros."""

    unix_datagram: SourceCounters = attrs.Factory(SourceCounters)
    unix_stream: SourceCounters = attrs.Factory(SourceCounters)
    tcp: SourceCounters = attrs.Factory(SourceCounters)
    refused: dict[Reason, int] = attrs.Factory(dict)

    def of(self, source: Source) -> SourceCounters:
        return {Source.UNIX_DATAGRAM: self.unix_datagram, Source.UNIX_STREAM: self.unix_stream, Source.TCP: self.tcp}[source]

    def named(self) -> dict[str, int]:
        unix, tcp = self.unix_stream, self.tcp
        return {
            "UnixDgInputAgentForwardMsg": self.unix_datagram.forwarded,
            "UnixDgInputBytes": self.unix_datagram.read_bytes,
            "NewUnixClient": unix.connections,
            "UnixStreamInputForwardMsg": unix.forwarded,
            "UnixStreamInputCleanDisconnect": unix.clean_ends,
            "UnixStreamInputUncleanDisconnect": unix.unclean_ends,
            "UnixStreamInputBytes": unix.read_bytes,
            "UnixStreamInputOpenConnections": unix.open,
            "NewTcpClient": tcp.connections,
            "TcpInputForwardMsg": tcp.forwarded,
            "TcpInputCleanDisconnect": tcp.clean_ends,
            "TcpInputUncleanDisconnect": tcp.unclean_ends,
            "TcpInputBytes": tcp.read_bytes,
            "TcpInputOpenConnections": tcp.open,
            "InputAgentDiscardMsgMalformed": self.refused.get(Reason.MALFORMED, 0),
            "InputAgentDiscardMsgUnsupportedApiKey": self.refused.get(Reason.API_KEY, 0),
            "InputAgentDiscardMsgUnsupportedVersion": self.refused.get(Reason.VERSION, 0),
            "StreamInputClosedForSize": unix.closed_for_size + tcp.closed_for_size,
            "StreamInputClosedForRoom": unix.closed_for_room + tcp.closed_for_room,
            "StreamInputAcceptPaused": unix.accept_pauses + tcp.accept_pauses,
            "InputSocketError": self.unix_datagram.errors + unix.errors + tcp.errors,
        }
