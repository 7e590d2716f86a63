"""Filters the texts of broker responses for one client. The connection passes each of them through here when it decodes a response."""

from __future__ import annotations

from typing import Final

from pykafka4.errors.words import UNSHOWN, filtered, repeats
from pykafka4.options.config import ClientConfig
from pykafka4.options.secret import Secret

__all__ = ["SecretFilter"]

KEPT: Final = 4  # credentials: the current ones, and those of connections that were made before a password changed
SHORTEST: Final = 8  # characters of a secret that is looked for in host names: `kafka` is a bad password, and a part of many names


class SecretFilter(Secret):
    """Knows the secrets of one client. Loop thread only."""

    __slots__ = ("_bootstrap", "_known")

    def __init__(self, config: ClientConfig) -> None:
        proxy = config.proxy_url
        given = (config.ssl_password, None if proxy is None else proxy.password.decode(errors="replace"))
        self._known: tuple[tuple[tuple[str, ...], str], ...] = ((tuple(s for s in given if isinstance(s, str)), ""),)
        self._bootstrap = " ".join(host for host, _ in config.bootstrap_servers)

    def learn(self, secrets: tuple[str, ...], user: str) -> None:
        """A mechanism authenticates a connection with these secrets and this user name."""
        always, *learned = self._known
        new = (secrets, user)
        self._known = (always, new, *[known for known in learned if known != new][: KEPT - 1])

    def filter(self, text: str) -> str:
        """`text` of a broker without secrets and user names, ready to be shown."""
        for secrets, user in self._known:
            text = filtered(text, secrets, user)
        return text

    def host(self, host: str) -> str:
        """An advertised host name; one that repeats a secret would reach log lines, and becomes UNSHOWN, which no resolver knows."""
        secrets = [s for known, _ in self._known for s in known if len(s) >= SHORTEST and s not in self._bootstrap]
        return UNSHOWN if secrets and repeats(host, secrets) and host not in self._bootstrap else host
