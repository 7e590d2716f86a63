"""Remembers which addresses have answered this process. Errors of such an address give no advice about its listener: it was right before.

Invariant: what an address has answered under one security protocol says nothing about another one.
"""

from __future__ import annotations

__all__ = ["Answered"]


class Answered:
    """The addresses, as in messages. The connections of all clients with the same security protocol share it; changes are atomic."""

    __slots__ = ("negotiated", "served")

    def __init__(self) -> None:
        self.negotiated: set[str] = set()  # answered ApiVersions: a Kafka broker, without TLS if the client uses none
        self.served: set[str] = set()  # answered another request: without SASL, if the client uses none
