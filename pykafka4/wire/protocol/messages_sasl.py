"""Declares the messages of authentication. Invariant: the bytes that a mechanism sends and receives are never shown.

A client imports this module only if it authenticates itself.
"""

from __future__ import annotations

from pykafka4.options.secret import refuse
from pykafka4.wire.protocol.fields import array, bytestring, int16, int64, string, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response


@response(api_key=17, versions="0-1")
class SaslHandshakeResponse(Response):
    """Whether the broker supports the mechanism, and the mechanisms that it supports."""

    error_code: int = wire(int16)
    mechanisms: list[str] = wire(array(string))


@request(api_key=17, versions="0-1")
class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    """Choose a mechanism, to begin the authentication or to repeat it. With v1 the mechanism's messages follow in SaslAuthenticate."""

    mechanism: str = wire(string)


@response(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Response):
    """The broker's message to the mechanism, and the time for which the authentication is valid (0: as long as the connection is open)."""

    __reduce_ex__ = refuse

    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", secret=True)
    auth_bytes: bytes = wire(bytestring, secret=True)
    session_lifetime_ms: int = wire(int64, "1+", ignorable=True)


@request(api_key=36, versions="0-2", flexible="2+", since="1.0")
class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    """The mechanism's message to the broker."""

    __reduce_ex__ = refuse

    auth_bytes: bytes = wire(bytestring, secret=True)
