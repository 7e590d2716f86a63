"""Keeps the options of a diagnosis, and results for later steps. Invariant: `close` closes the clients that `connect` created."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from pykafka4.admin import AdminClient
from pykafka4.client.client import Client
from pykafka4.core.admin.cluster import ClusterDescription
from pykafka4.diagnosis.addresses import Address, SocketAddress
from pykafka4.diagnosis.values import Finding, Outcome
from pykafka4.errors import AuthorizationError, KafkaError
from pykafka4.errors.rights import Right
from pykafka4.net.tls import Contexts
from pykafka4.options.config import ClientConfig

__all__ = ["CLOSE_S", "Case", "failed"]

CLOSE_S = 1.0  # a broker that does not respond must not hold up the next step


@attrs.define(eq=False)
class Case:
    """Raises ConfigError for an invalid option. `client` and `admin` exist after `connect`."""

    options: Mapping[str, Any]
    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    config: ClientConfig = attrs.field(init=False)
    context: ssl.SSLContext | None = attrs.field(init=False)
    resolved: dict[Address, list[SocketAddress]] = attrs.field(factory=dict)  # names that resolve
    # Addresses that accept connections, and have not failed a TLS handshake.
    reachable: dict[Address, SocketAddress] = attrs.field(factory=dict)
    faulty: set[Address] = attrs.field(factory=set)  # addresses with a WRONG finding of names, ports, tls or login
    login_servers: list[Address] = attrs.field(factory=list)  # bootstrap servers that let this client in
    cluster: ClusterDescription | None = None
    _client: Client | None = attrs.field(init=False, default=None)
    _admin: AdminClient | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.config = ClientConfig.parse(self.options)
        self.context = Contexts(self.config).current() if self.config.encrypts else None

    @property
    def servers(self) -> list[Address]:
        return list(dict.fromkeys(self.config.bootstrap_servers))

    def client_of(self, servers: Sequence[Address], seconds: float) -> Client:
        """A client that waits at most `seconds` for a connection or a response."""
        limit = max(1, round(seconds * 1000))
        names = ("request_timeout_ms", "socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms")
        return Client(**{**self.options, "bootstrap_servers": servers, **dict.fromkeys(names, limit)})

    def connect(self, seconds: float) -> None:
        """Create the client for the later steps, with only `login_servers` as its bootstrap servers."""
        self._client = self.client_of(self.login_servers, seconds)
        self._admin = AdminClient(client=self._client)

    @property
    def tls(self) -> ssl.SSLContext:
        assert self.context is not None
        return self.context

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    @property
    def admin(self) -> AdminClient:
        assert self._admin is not None
        return self._admin

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close(CLOSE_S)
        if self._client is not None:
            self._client.close(CLOSE_S)


def failed(step: str, about: str, what: str, error: KafkaError, way_out: str = "", denied: Outcome = Outcome.UNSEEN) -> Finding:
    """`denied` is the outcome if this user lacks a right."""
    if isinstance(error, AuthorizationError):
        right = Right(error.operation or "DESCRIBE", error.resource or "cluster", error.resource_name or "")
        return Finding(step, about, denied, f"this user may not {right}", str(error.code), right.way_out)
    return Finding(step, about, Outcome.WRONG, what, str(error), way_out)
