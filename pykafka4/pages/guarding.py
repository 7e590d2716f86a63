"""Protects pages from requests that pages of other sites make. Invariant: a page of another site reads nothing.

A browser sends a page's requests to any address that the page names. The Host header must be a name of this machine, because a foreign name
may resolve to 127.0.0.1 (DNS rebinding). The Origin header, if there is one, must name the same host, because a form on another site may
post to this server. The request for an image on a page of another site has no Origin header, but current browsers add Sec-Fetch-Site to
requests to loopback. In other cases, `HEADERS` has the browser hide the response from the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

__all__ = ["FULL", "HEADERS", "Names"]

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
OWN_SITES: Final = frozenset({"same-origin", "none"})  # "none": the user has entered the address
FULL: Final = (  # the response to a connection above the limit
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 26\r\n\r\n"
    b"503: too many connections\n"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Names:
    """The names of this machine that a Host header may have."""

    def __init__(self, hosts: Iterable[str] = (), *, hint: str = "use localhost") -> None:
        """`hosts` are further names; `hint` is the way out in a refusal."""
        self._names = LOOPBACK | {_name(host) for host in hosts}
        self._hint = hint

    def refusal(self, headers: Callable[[str], Sequence[str]]) -> str | None:
        """The reason to refuse a request; None for an allowed request. `headers(name)` returns the values of all headers with this name."""
        hosts = headers("Host")
        if len(hosts) != 1:
            return "403: the request has no Host header, or several; send one, for example Host: localhost"
        host = hosts[0].strip().lower()
        if _name(host) not in self._names:
            return f"403: Host {host[:100]!r} is not a name of this machine; {self._hint}"
        for origin in headers("Origin"):
            if origin.strip().lower() not in (f"http://{host}", f"https://{host}"):
                return f"403: Origin {origin[:100]!r} is not this host: pages of other sites may not use this one"
        is_link = list(headers("Sec-Fetch-Dest")) == ["document"]  # the browser shows the response as a page of its own
        if not is_link and not OWN_SITES.issuperset(headers("Sec-Fetch-Site")):
            return "403: pages of other sites may not use this one (Sec-Fetch-Site)"
        return None


def _name(host: str) -> str:
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].removesuffix(".")
