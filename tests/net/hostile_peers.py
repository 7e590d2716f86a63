"""What answers at a broker's address. Rule: the address stays; first something else is there, then a model broker with TLS and SASL."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable
from typing import Any

from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.frame import decode_request, decode_response, encode_response
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, ApiVersionsResponse
from pykafka4.wire.protocol.messages_sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from pykafka4.wire.protocol.schema import Response
from tests.core.sasl.sasl_peer import PASSWORD, ScramBroker
from tests.net import tls_peers
from tests.net.net_helpers import SECONDS
from tests.net.proxy_servers import Server

__all__ = ["GARBAGE", "PEERS", "PROTOCOLS", "Peer", "Place", "options"]

Peer = Callable[[Any], object]
PROTOCOLS = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
GARBAGE = bytes(range(128, 256)) * 512
USER = "alice"


def options(protocol: str) -> dict[str, Any]:
    """Of a client that `Place` accepts."""
    chosen: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        chosen["ssl_ca_pem"] = tls_peers.AUTHORITY.pem.decode()
    if protocol.startswith("SASL"):
        chosen |= {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": USER, "sasl_password": PASSWORD}
    return chosen


# -- what is no broker


def speaks_first(banner: bytes) -> Peer:
    return lambda connection: (connection.sendall(banner), silence(connection))


def answers(data: bytes) -> Peer:
    """Whatever it is asked."""
    return lambda connection: (connection.recv(1 << 16), connection.sendall(data), silence(connection))


def silence(connection: Any) -> None:
    while connection.recv(1 << 16):
        pass


def endless(head: bytes, rest: bytes) -> Peer:
    def send(connection: Any) -> None:
        connection.sendall(head)
        pause = threading.Event()
        while not pause.wait(0.001):  # the other threads of this process need the interpreter, too
            connection.sendall(rest)

    return send


def dripping(head: bytes) -> Peer:
    """A byte after the other, for ever."""

    def drip(connection: Any) -> None:
        pause = threading.Event()
        for byte in itertools.chain(head, itertools.repeat(0)):
            connection.sendall(bytes([byte]))
            pause.wait(0.02)

    return drip


def encrypted(peer: Peer) -> Peer:
    """The same behind TLS, with a certificate that is right."""

    def serve(connection: socket.socket) -> None:
        with tls_peers.right().wrap_socket(connection, server_side=True) as inside:
            peer(inside)

    return serve


PEERS: dict[str, Peer] = {
    "HTTP": answers(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    "SSH": speaks_first(b"SSH-2.0-OpenSSH_9.2p1\r\n"),
    "SMTP": speaks_first(b"220 mail.example ESMTP Postfix\r\n"),
    "alert": answers(b"\x15\x03\x03\x00\x02\x02\x28"),
    "TLS": encrypted(silence),
    "garbage": endless(b"", GARBAGE),
    "frames": endless(b"", (1 << 16).to_bytes(4, "big") + bytes(1 << 16)),
    "large": endless((1 << 21).to_bytes(4, "big"), bytes(1 << 16)),
    "drip": dripping(b"\x00\x00\x7f\xff"),
    "drip of TLS": dripping(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xff"),
    "silence": silence,
}


# -- what is one


class Place(Server):
    """One address. `peer`: what is there instead of a broker; None: a model broker that demands `protocol` of its clients."""

    def __init__(self, model: ModelServer, protocol: str, peer: Peer | None = None) -> None:
        self.protocol, self.peer = protocol, peer
        self.mangle: Callable[[bytes], bytes] = bytes  # what becomes of the frames up to the end of the authentication
        (broker,) = model.do(lambda cluster: list(cluster.brokers.values()))
        self.model = broker.host, broker.port
        super().__init__()
        model.do(lambda cluster: setattr(broker, "port", self.port))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def become(self, peer: Peer | None) -> None:
        """Something else answers from now on; who is connected is cut off."""
        self.stop()
        self.peer = peer
        self.start()

    def serve(self, connection: socket.socket) -> None:
        if self.peer is not None:
            self.peer(connection)
        elif self.protocol.endswith("SSL"):
            encrypted(self._broker)(connection)
        else:
            self._broker(connection)

    def _broker(self, connection: socket.socket) -> None:
        if self.protocol.startswith("SASL"):
            self._authenticate(connection)
        self.join(connection, self.model, lambda: None)

    def _authenticate(self, connection: socket.socket) -> None:
        """SCRAM, after whose second message the client is let in."""
        scram = ScramBroker()
        steps = [scram.first, scram.final]
        while steps:
            frame = read_frame(connection)
            header, request = decode_request(frame)
            response: Response
            if isinstance(request, ApiVersionsRequest):
                response = self._versions(frame)
            elif isinstance(request, SaslHandshakeRequest):
                response = SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"])
            else:
                response = proved(steps.pop(0), request.auth_bytes)
            body = self.mangle(b"".join(encode_response(response, header.version, header.correlation_id))[4:])
            connection.sendall(len(body).to_bytes(4, "big") + body)

    def _versions(self, frame: bytes) -> ApiVersionsResponse:
        """Those of the model, and of SASL."""
        with socket.create_connection(self.model, SECONDS) as model:
            model.sendall(len(frame).to_bytes(4, "big") + frame)
            found = decode_response(ApiVersionsRequest, int.from_bytes(frame[2:4], "big"), read_frame(model))[1]
        for request in (SaslHandshakeRequest, SaslAuthenticateRequest):
            found.api_keys.append(ApiVersionsResponse.Api(api_key=request.api_key, min_version=0, max_version=request.versions.hi))
        return found


def proved(step: Callable[[bytes], bytes], message: bytes) -> SaslAuthenticateResponse:
    try:
        return SaslAuthenticateResponse(auth_bytes=step(message))
    except (AssertionError, ValueError):  # what the client was told is not what it should have been told
        return SaslAuthenticateResponse(error_code=58, error_message="invalid credentials")


def read_frame(connection: socket.socket) -> bytes:
    return read(connection, int.from_bytes(read(connection, 4), "big"))


def read(connection: socket.socket, size: int) -> bytes:
    """`recv` of a TLS socket knows no MSG_WAITALL."""
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
