"""A world in which every secret is planted. Rule: the options of a client are right, and every one that may hold a secret is planted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization

from pykafka4.testing import ModelServer
from tests.net.proxy_servers import SERVERS, ProxyServer
from tests.net.tls_peers import AUTHORITY, context
from tests.secrets.guarded_broker import GuardedBroker
from tests.secrets.outlets import Outlets
from tests.secrets.planted import Planted

__all__ = ["World"]


class World:
    """A guarded broker, a proxy before it, and options that let a client in."""

    def __init__(self, folder: Path, planted: Planted, outlets: Outlets) -> None:
        self.folder, self.planted, self.outlets = folder, planted, outlets
        self.user, self.password = planted.plant("user name"), planted.plant("password")
        self.token = planted.plant("token", "{}.{}")
        self.proxy_user, self.proxy_word = planted.plant("proxy user", "{}/ %{}"), planted.plant("proxy password")
        self.key_word = planted.plant("key password")
        certificate = AUTHORITY.client("alice")
        self.certificate = certificate.chain.decode()
        loaded = serialization.load_pem_private_key(certificate.key, None)
        encryption = serialization.BestAvailableEncryption(self.key_word.encode())
        form = serialization.PrivateFormat.PKCS8
        self.key = planted.document("private key", loaded.private_bytes(serialization.Encoding.PEM, form, encryption))
        self.open_key = planted.document("private key", certificate.key)
        self.model = ModelServer(1)
        self.model.create_topic("t", 1)
        self.stops: list[Any] = [self.model.close]

    def broker(self, mechanism: str = "PLAIN", lifetime_ms: int = 0) -> GuardedBroker:
        expected = {"PLAIN": f"\0{self.user}\0{self.password}", "OAUTHBEARER": self.token}.get(mechanism, self.password)
        made = GuardedBroker(self.model, context(AUTHORITY.server(), demand=True), mechanism, expected, lifetime_ms)
        self.stops.append(made.stop)
        self.model.do(lambda cluster: setattr(cluster.brokers[1], "port", made.port))
        return made

    def proxy(self, scheme: str) -> ProxyServer:
        made = SERVERS[scheme]({}, (self.proxy_user, self.proxy_word))
        self.stops.append(made.stop)
        return made

    def file(self, name: str, content: str, mode: int = 0o600) -> str:
        path = self.folder / name
        path.write_text(content)
        path.chmod(mode)
        return str(path)

    def options(self, broker: GuardedBroker, **others: Any) -> dict[str, Any]:
        """Right ones; None in `others` leaves an option out."""
        login = (
            {"sasl_oauth_token": lambda: self.token}
            if broker.mechanism == "OAUTHBEARER"
            else {"sasl_username": self.user, "sasl_password": self.password}
        )
        found = {
            "bootstrap_servers": f"127.0.0.1:{broker.port}",
            "client_id": "seen",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": broker.mechanism,
            "ssl_ca_pem": AUTHORITY.pem.decode(),
            "ssl_cert_pem": self.certificate,
            "ssl_key_pem": self.key,
            "ssl_password": self.key_word,
            **login,
            **others,
        }
        return {name: value for name, value in found.items() if value is not None}

    def close(self) -> None:
        for stop in reversed(self.stops):
            stop()
