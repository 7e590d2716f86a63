"""Logs in at a broker, frame by frame, with no code of the client under test, to learn the broker's answers.

All calls block, and each ends within its deadline. A refusal of the broker is a `Refused` with its code; a failed TLS handshake raises the
error of `ssl`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Generator

import attrs

from integration.security.certificates import Authority
from integration.security.credentials import SCRAM, salted
from integration.waiting import Deadline

__all__ = ["Refused", "Session", "login", "served_certificate", "trusting", "unchecked"]

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
CLIENT_ID = b"login"
MOST_ANSWER_BYTES = 1 << 20
STEP_S = 10.0

Exchange = Generator[bytes, bytes, None]


class Refused(Exception):
    """Raised if the broker refuses a login, with its error code and its message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (error {code})")
        self.code = code


@attrs.frozen
class Session:
    """A login that succeeded. `lifetime_ms` is the time until the connection must authenticate again; 0: never."""

    lifetime_ms: int


def trusting(authority: Authority, certificate: tuple[str, str] | None = None) -> ssl.SSLContext:
    """`certificate` are the files of the client's own certificate and key."""
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


def unchecked(certificate: tuple[str, str] | None = None) -> ssl.SSLContext:
    """The context accepts every server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


def login(
    address: tuple[str, int],
    context: ssl.SSLContext | None,
    mechanism: str | None = None,
    user: str = "",
    password: str = "",
    timeout: float = STEP_S,
) -> Session:
    """Connect, with TLS if there is a `context`; authenticate if there is a `mechanism`; then send a request.

    For OAUTHBEARER `password` is the token. Raises `Refused` if the broker refuses.
    """
    deadline = Deadline(timeout)
    with Line(connected(address, context, deadline), deadline) as line:
        lifetime = 0 if mechanism is None else authenticated(line, mechanism, exchange(mechanism, user, password))
        line.call(API_VERSIONS, 0, b"")  # with TLS 1.3, a refusal of the client's certificate comes only here
        return Session(lifetime)


def served_certificate(address: tuple[str, int], certificate: tuple[str, str] | None = None, timeout: float = STEP_S) -> bytes:
    """The certificate that a listener shows, unchecked, in DER."""
    with connected(address, unchecked(certificate), Deadline(timeout)) as connection:
        assert isinstance(connection, ssl.SSLSocket)
        return connection.getpeercert(binary_form=True) or b""


def connected(address: tuple[str, int], context: ssl.SSLContext | None, deadline: Deadline) -> socket.socket:
    connection = socket.create_connection(address, timeout=max(0.001, deadline.left()))
    if context is None:
        return connection
    try:
        return context.wrap_socket(connection, server_hostname=address[0])
    except BaseException:
        connection.close()
        raise


class Line:
    """One connection, for a request and its response at a time."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self.connection, self.deadline = connection, deadline

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def call(self, api_key: int, version: int, body: bytes) -> bytes:
        frame = struct.pack(">hhih", api_key, version, 1, len(CLIENT_ID)) + CLIENT_ID + body
        self.connection.settimeout(max(0.001, self.deadline.left()))
        self.connection.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self.read(4))
        if not 4 <= size <= MOST_ANSWER_BYTES:
            raise ConnectionError(f"a frame of {size} bytes")
        return self.read(size)[4:]

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            self.connection.settimeout(max(0.001, self.deadline.left()))
            got = self.connection.recv(size - len(data))
            if not got:
                raise ConnectionError("the broker closed the connection")
            data += got
        return data


def authenticated(line: Line, mechanism: str, messages: Exchange) -> int:
    """Carry out the exchange; return the lifetime of the session."""
    answer = line.call(SASL_HANDSHAKE, 1, struct.pack(">h", len(mechanism)) + mechanism.encode())
    (code,) = struct.unpack_from(">h", answer)
    if code:
        raise Refused(code, f"the broker has no {mechanism}")
    lifetime, message = 0, next(messages)
    while True:
        lifetime, answer = step(line, message)
        try:
            message = messages.send(answer)
        except StopIteration:
            return lifetime


def step(line: Line, message: bytes) -> tuple[int, bytes]:
    answer = line.call(SASL_AUTHENTICATE, 1, struct.pack(">i", len(message)) + message)
    code, size = struct.unpack_from(">hh", answer)
    at = 4 + max(0, size)
    if code:
        raise Refused(code, answer[4:at].decode())
    (length,) = struct.unpack_from(">i", answer, at)
    (lifetime,) = struct.unpack_from(">q", answer, at + 4 + length)
    return lifetime, answer[at + 4 : at + 4 + length]


def exchange(mechanism: str, user: str, password: str) -> Exchange:
    if mechanism in SCRAM:
        return scram(mechanism, user, password)
    if mechanism == "PLAIN":
        return once(f"\0{user}\0{password}")
    if mechanism == "OAUTHBEARER":
        return once(f"n,,\x01auth=Bearer {password}\x01\x01")
    raise ValueError(f"no login by {mechanism}")


def once(message: str) -> Exchange:
    answer = yield message.encode()
    if answer.startswith(b"{"):  # the reason why a token was refused; the protocol then demands one more message
        yield b"\x01"


def scram(mechanism: str, user: str, password: str) -> Exchange:
    """The client's messages of RFC 5802, without channel binding."""
    hash_name = SCRAM[mechanism].hash_name
    nonce = secrets.token_urlsafe(18)
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    server_first = (yield f"n,,{first}".encode()).decode()
    told = dict(part.split("=", 1) for part in server_first.split(","))
    if not told["r"].startswith(nonce):
        raise ConnectionError("the broker's nonce does not begin with ours")
    secret = salted(mechanism, password, base64.b64decode(told["s"]), int(told["i"]))
    final = f"c=biws,r={told['r']}"
    signed = f"{first},{server_first},{final}".encode()
    client_key = hmac.digest(secret, b"Client Key", hash_name)
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = yield f"{final},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(secret, b"Server Key", hash_name), signed, hash_name)
    if server_final != b"v=" + base64.b64encode(expected):
        raise ConnectionError("the broker does not know the password")
