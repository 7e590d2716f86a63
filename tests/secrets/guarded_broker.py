"""A model broker behind TLS and SASL. Rule: what it receives is checked, so that a test knows that the secrets have been used.

It repeats the credentials in every refusal, as no broker should.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable

from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.frame import decode_request, encode_response
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, ApiVersionsResponse
from pykafka4.wire.protocol.messages_sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.core.sasl.sasl_peer import ScramBroker
from tests.net.proxy_servers import Server

__all__ = ["GuardedBroker"]

REFUSED, UNSUPPORTED = 58, 33


class GuardedBroker(Server):
    """`expected`: the bytes of PLAIN or the token of OAUTHBEARER; for SCRAM the password. `lifetime_ms`: how long a login is valid."""

    def __init__(self, model: ModelServer, context: ssl.SSLContext, mechanism: str, expected: str, lifetime_ms: int = 0) -> None:
        self.context, self.mechanism, self.expected, self.lifetime_ms = context, mechanism, expected, lifetime_ms
        (broker,) = model.cluster.brokers.values()
        self.address = broker.host, broker.port
        self.versions = dict(model.cluster.versions)
        self.logins = self.refusals = 0
        self.certificates: list[object] = []
        self.received: list[bytes] = []  # what clients sent to prove who they are
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        encrypted = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        onward = socket.create_connection(self.address)
        try:
            self.keep(onward)
            self.keep(encrypted)
            encrypted.do_handshake()
            self.certificates.append(encrypted.getpeercert())
            exchange: Callable[[bytes], SaslAuthenticateResponse] = self.plain
            while True:
                frame = received(encrypted)
                key, version, number = struct.unpack_from(">hhi", frame)
                if key == ApiVersionsRequest.api_key:
                    response: object = self.apis()
                elif key == SaslHandshakeRequest.api_key:
                    exchange = self.scram() if self.mechanism.startswith("SCRAM") else self.plain
                    asked = decode_request(frame)[1].mechanism  # type: ignore[attr-defined]
                    error = 0 if asked == self.mechanism else UNSUPPORTED
                    response = SaslHandshakeResponse(error_code=error, mechanisms=[self.mechanism])
                elif key == SaslAuthenticateRequest.api_key:
                    self.received.append(bytes(decode_request(frame)[1].auth_bytes))  # type: ignore[attr-defined]
                    response = exchange(self.received[-1])
                else:
                    onward.sendall(struct.pack(">i", len(frame)) + frame)
                    answer = received(onward)
                    encrypted.sendall(struct.pack(">i", len(answer)) + answer)
                    continue
                encrypted.sendall(b"".join(encode_response(response, version, number)))  # type: ignore[arg-type]
        finally:
            self.drop(onward)
            self.drop(encrypted)

    def apis(self) -> ApiVersionsResponse:
        known = {**self.versions, SaslHandshakeRequest.api_key: (0, 1), SaslAuthenticateRequest.api_key: (0, 2)}
        rows = [ApiVersionsResponse.Api(api_key=key, min_version=low, max_version=high) for key, (low, high) in known.items()]
        return ApiVersionsResponse(error_code=0, api_keys=rows)

    def accepted(self, challenge: bytes = b"") -> SaslAuthenticateResponse:
        self.logins += 1
        return SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=self.lifetime_ms)

    def refused(self, data: bytes) -> SaslAuthenticateResponse:
        self.refusals += 1
        return SaslAuthenticateResponse(error_code=REFUSED, error_message=f"no: {b' '.join(self.received[-2:])!r}")

    def plain(self, data: bytes) -> SaslAuthenticateResponse:
        """PLAIN or OAUTHBEARER: one message. A token is refused as JSON first."""
        if self.expected.encode() in data:
            return self.accepted()
        if self.mechanism == "OAUTHBEARER" and data != b"\x01":
            self.refusals += 1
            return SaslAuthenticateResponse(auth_bytes=b'{"status": "%s"}' % data.split(b"\x01")[1])
        return self.refused(data)

    def scram(self) -> Callable[[bytes], SaslAuthenticateResponse]:
        peer = ScramBroker(self.mechanism.removeprefix("SCRAM-").replace("-", "").lower(), self.expected)
        rounds = []

        def exchange(data: bytes) -> SaslAuthenticateResponse:
            rounds.append(data)
            if len(rounds) == 1:
                return SaslAuthenticateResponse(auth_bytes=peer.first(data))
            try:
                return self.accepted(peer.final(data))
            except AssertionError:
                return self.refused(data)

        return exchange


def received(connection: socket.socket) -> bytes:
    """One frame."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        size = 4 if len(data) < 4 else 4 + int.from_bytes(data[:4], "big")
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data[4:]
