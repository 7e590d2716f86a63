"""The other side of GSSAPI. Rule: a context that believes what a script says; what is signed is readable here."""

from __future__ import annotations

from pykafka4.core.sasl.gssapi import Gssapi
from pykafka4.core.sasl.mechanism import failed

FIRST, PROOF, SIGNED = b"client's token", b"broker's token", b"signed:"
OFFER = b"\x01\x01\x00\x00"  # as Java's brokers send it
SERVICE = "kafka/b1.example"


class Context:
    """A context that takes PROOF from the broker, and messages that begin with SIGNED."""

    def __init__(self, answer: bytes = b"") -> None:
        self.answer = answer
        self.steps: list[bytes] = []

    def step(self, token: bytes) -> tuple[bytes, bool]:
        self.steps.append(token)
        if not token.startswith(b"broker's"):
            raise failed("the broker's message is refused: 'Invalid token was supplied'")
        return self.answer, token == PROOF

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(SIGNED):
            raise failed("the broker's message is refused: 'A token had an invalid signature'")
        return message.removeprefix(SIGNED)

    def wrap(self, content: bytes) -> bytes:
        return SIGNED + content


def gssapi(context: Context | None = None) -> Gssapi:
    return Gssapi(context or Context(), FIRST, SERVICE)
