"""Authenticates a client by GSSAPI with Kerberos (RFC 4752).

Invariant: the exchange completes only after the broker has proved that it has the service's key; the client chooses no security layer.

A broker sends three messages: its token, which is the proof; the security layers that it offers; an empty message. The context comes from a
Kerberos library (`net/kerberos.py`), which may need a KDC for the client's token, so the token is made before the exchange.
"""

from __future__ import annotations

from typing import Final, Protocol

from pykafka4.core.sasl.mechanism import Exchange, failed

__all__ = ["Context", "Gssapi"]

NO_LAYER: Final = 1  # messages are neither signed nor encrypted; 2: signed, 4: encrypted
OFFER_BYTES: Final = 4  # bytes of the offer: the bits of the layers, and the length of the longest message
ODD: Final = "the broker does not speak GSSAPI as in RFC 4752: check the program that listens there"


class Context(Protocol):
    """The security context with one broker. A call that the context refuses raises AuthenticationError."""

    def step(self, token: bytes) -> tuple[bytes, bool]:
        """Process the broker's token; return the answer (usually empty), and whether both sides have proved their identities."""

    def unwrap(self, message: bytes) -> bytes:
        """The content of a message that the broker has signed."""

    def wrap(self, content: bytes) -> bytes:
        """A signed message with `content`."""


class Gssapi(Exchange):
    name = "GSSAPI"

    def __init__(self, context: Context, token: bytes, service: str) -> None:
        """`token` is the client's token, from `context`. `service` is the broker's principal, for messages."""
        super().__init__()
        self._context, self._token, self._service = context, token, service
        self._is_proved = False  # the broker has proved its identity
        self._has_chosen = False  # the client has answered the broker's offer of security layers

    def slow(self, challenge: bytes) -> bool:
        return True  # the library may pass its work on to another process (gssproxy)

    def _opening(self) -> bytes:
        return self._token

    def _answer(self, challenge: bytes) -> bytes | None:
        if self._has_chosen:
            if challenge:
                raise failed(f"the broker sent {len(challenge):,} bytes after the end of the exchange; {ODD}")
            return None
        return self._choose(challenge) if self._is_proved else self._verify(challenge)

    def _verify(self, token: bytes) -> bytes:
        if not token:
            raise failed(f"the broker reports success without a proof that it is {self._service}: do not trust it")
        answer, self._is_proved = self._context.step(token)
        if not self._is_proved:
            raise failed(f"the broker's token does not prove that it is {self._service}: do not trust it")
        return answer

    def _choose(self, message: bytes) -> bytes:
        """Choose no security layer, and the identity of the ticket.

        Without a layer the length of the longest message should be 0 (RFC 4752, section 3.1). Java sends 65,536, so the length is not
        checked.
        """
        offer = self._context.unwrap(message)
        if len(offer) != OFFER_BYTES:
            raise failed(f"the broker's offer of security layers has {len(offer):,} bytes, not {OFFER_BYTES}; {ODD}")
        if not offer[0] & NO_LAYER:
            raise failed("the broker demands a security layer of GSSAPI, which Kafka does not have; use TLS (SASL_SSL) instead")
        self._has_chosen = True
        return self._context.wrap(bytes([NO_LAYER, 0, 0, 0]))

    def secrets(self) -> tuple[str, ...]:
        return ()

    def _advice(self) -> str:
        return (
            f"check that the broker's keytab has the present key of {self._service}, and the clocks of both machines; after that key has "
            "changed, the client needs a new ticket (`kinit`)"
        )
