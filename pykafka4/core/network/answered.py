"""Remembers the addresses that have answered this process: an answer rules out some guesses about the listener at its address.

Rule: each security protocol has its own object, because an answer under one protocol says nothing about another.
"""

from __future__ import annotations

__all__ = ["Answered"]


class Answered:
    """The addresses, as messages show them. All clients with the same security protocol share one object; its changes are atomic."""

    __slots__ = ("negotiated", "served")

    def __init__(self) -> None:
        self.negotiated: set[str] = set()  # addresses that answered ApiVersions: Kafka brokers, which demand no TLS if the client uses none
        self.served: set[str] = set()  # addresses that answered after the handshake: they demand no SASL if the client uses none
