"""TLS for tests of the transports: an authority, servers with certificates of every kind, and options that trust the right ones."""

from __future__ import annotations

import functools
import socket
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from integration.security.certificates import Authority, Certificate
from pykafka4.net.handoff.workers import Helper
from pykafka4.net.secure import SecureTransport
from pykafka4.net.tls import Contexts
from pykafka4.net.transport import Post
from pykafka4.options.security import SecurityConfig

__all__ = ["AUTHORITY", "config", "context", "right", "transport", "wrap", "wrapping"]

AUTHORITY = Authority()
NAMES = "localhost", "127.0.0.1", "::1", "kafka.invalid", "*.brokers.invalid"


def config(**options: Any) -> SecurityConfig:
    """Options that trust the authority."""
    trust = {} if {"ssl_context", "ssl_cafile"} & options.keys() else {"ssl_ca_pem": AUTHORITY.pem.decode()}
    return SecurityConfig(**{"security_protocol": "SSL", **trust, **options})


def transport(max_frame: int, post: Post, **options: Any) -> SecureTransport:
    return SecureTransport(max_frame, Helper(), post, Contexts(config(**options)))


@functools.cache
def right() -> ssl.SSLContext:
    """Of a server with which nothing is wrong, and of the names that tests connect to."""
    return context(AUTHORITY.server(*NAMES, *(f"127.0.0.{n}" for n in range(2, 102))))


def context(certificate: Certificate, *, demand: bool = False, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    """Of a server. `demand`: of every client a certificate of the authority."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "both.pem")
        place.write_bytes(certificate.keystore)
        made.load_cert_chain(place)
    if demand:
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_verify_locations(cadata=AUTHORITY.pem.decode())
    if version is not None:
        made.minimum_version = made.maximum_version = version
    return made


def wrap(connection: socket.socket) -> socket.socket:
    """What `serving` needs for TLS."""
    return wrapping(right())(connection)


def wrapping(made: ssl.SSLContext) -> Callable[[socket.socket], socket.socket]:
    """`wrap` with another context."""

    def wrap_or_close(connection: socket.socket) -> socket.socket:
        try:
            return made.wrap_socket(connection, server_side=True)
        except OSError as error:  # if the client is gone already, `ssl` leaves its new socket open
            trace = error.__traceback__
            while trace is not None:
                if isinstance(left := trace.tb_frame.f_locals.get("self"), ssl.SSLSocket):
                    left.close()
                trace = trace.tb_next
            raise

    return wrap_or_close
