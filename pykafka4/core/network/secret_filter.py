"""Hides a client's secrets and SASL user names in the texts of broker responses. Invariant: a connection filters error messages while it
decodes a response, except messages of SASL, which the mechanism filters; a response for which the request has a decoder
(`Request.decode`) bypasses the filter."""

from __future__ import annotations

from typing import Final

from pykafka4.errors.peer_text import UNSHOWN, filtered, repeats
from pykafka4.options.config import ClientConfig
from pykafka4.options.secret import Secret

__all__ = ["SecretFilter"]

MOST_KEPT_SECRETS: Final = 4  # the current credentials, and earlier ones with which open connections authenticated
SHORTEST_SECRET: Final = 8  # characters; a shorter secret is not hidden in host names: `kafka` is a bad password, but a part of many names


class SecretFilter(Secret):
    """The secrets of one client. Loop thread only."""

    __slots__ = ("_bootstrap", "_known")

    def __init__(self, config: ClientConfig) -> None:
        proxy = config.proxy_url
        given = (config.ssl_password, None if proxy is None else proxy.password.decode(errors="replace"))
        self._known: tuple[tuple[tuple[str, ...], str], ...] = ((tuple(s for s in given if isinstance(s, str)), ""),)
        self._bootstrap = " ".join(host for host, _ in config.bootstrap_servers)

    def learn(self, secrets: tuple[str, ...], user: str) -> None:
        always, *learned = self._known
        new = (secrets, user)
        self._known = (always, new, *[known for known in learned if known != new][: MOST_KEPT_SECRETS - 1])

    def filter(self, text: str) -> str:
        for secrets, user in self._known:
            text = filtered(text, secrets, user)
        return text

    def host(self, host: str) -> str:
        """Return an advertised host name, or UNSHOWN, which no resolver knows, if the name repeats a secret: names reach log lines.

        Names and secrets that are part of `bootstrap_servers` are not hidden.
        """
        secrets = [s for known, _ in self._known for s in known if len(s) >= SHORTEST_SECRET and s not in self._bootstrap]
        return UNSHOWN if secrets and repeats(host, secrets) and host not in self._bootstrap else host
