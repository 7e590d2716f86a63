"""Authenticates a client by PLAIN (RFC 4616), which sends the password itself, so the caller must warn if the connection has no TLS."""

from __future__ import annotations

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.core.sasl.mechanism import Exchange, failed

__all__ = ["Plain"]


class Plain(Exchange):
    """One exchange of PLAIN: one message, which the broker accepts with an empty message."""

    name = "PLAIN"

    def __init__(self, credentials: SaslCredentials) -> None:
        super().__init__()
        self._credentials = credentials

    def _opening(self) -> bytes:
        for what, value in (("user name", self._credentials.username), ("password", self._credentials.password)):
            if "\0" in value:
                raise failed(f"the {what} has a NUL character, which ends a field in PLAIN; choose one without it")
        return f"\0{self._credentials.username}\0{self._credentials.password}".encode()

    def _answer(self, challenge: bytes) -> None:
        if challenge:
            raise failed(f"the broker sent {len(challenge):,} bytes where PLAIN has none; check the program that listens there")

    def secrets(self) -> tuple[str, ...]:
        return (self._credentials.password,)

    @property
    def username(self) -> str:
        return self._credentials.username

    def _advice(self) -> str:
        return "check user name and password"
