"""Chooses the transport of a new loop; no other module does.

`PYKAFKA4_LOOP=pump` requires the compiled pump, `PYKAFKA4_LOOP=portable` the transport on `selectors`. Without the variable, loops use the
pump if it was built. The pump is built on Linux only, and never used in an interpreter without the GIL. TLS has its own transport, on
`selectors`, whatever the variable says, because encryption takes far longer than moving the bytes.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pykafka4.net.handoff.workers import Helper
from pykafka4.net.portable import PortableTransport
from pykafka4.net.transport import Post, Transport
from pykafka4.options.proxy import Proxy
from pykafka4.options.security import SecurityConfig

if TYPE_CHECKING:
    from pykafka4.net.tls import Contexts

__all__ = ["LOOP", "open_contexts", "open_transport"]

Opener: TypeAlias = Callable[[int, Helper, Post, Proxy | None], Transport]


def choose(wanted: str | None) -> tuple[str, Opener]:
    """Return (name, class) of the transport. Raises ImportError if the required pump cannot be used, and for an unknown value."""
    if wanted not in {None, "", "pump", "portable"}:
        raise ImportError(f"PYKAFKA4_LOOP={wanted!r} must be pump, portable or unset")
    if wanted == "portable":
        return "portable", PortableTransport
    try:
        return "pump", _pump()
    except ImportError:
        if wanted:
            raise
    return "portable", PortableTransport


def _pump() -> Opener:
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ImportError("the pump relies on the GIL, which is off in this interpreter")
    opener: Opener = importlib.import_module("pykafka4.net.pump.transport").PumpTransport
    return opener


LOOP, _opener = choose(os.environ.get("PYKAFKA4_LOOP"))


def open_transport(max_frame: int, helper: Helper, post: Post, contexts: Contexts | None = None, proxy: Proxy | None = None) -> Transport:
    """Return a transport for a new loop: with TLS if there are `contexts`, through `proxy` if there is one.

    `max_frame` is receive_message_max_bytes; `helper` looks up names, and reads certificates again; `post` runs a call on the loop thread.
    """
    if contexts is None:
        return _opener(max_frame, helper, post, proxy)
    from pykafka4.net.secure import SecureTransport  # imported here: a client without TLS need not load OpenSSL

    return SecureTransport(max_frame, helper, post, contexts, proxy)


def open_contexts(config: SecurityConfig, client_id: str) -> Contexts | None:
    """Read the certificates and return their `Contexts`; None if `config` requires no TLS. Raises the errors of `Contexts`."""
    if not config.encrypts:
        return None
    from pykafka4.net.tls import Contexts

    return Contexts(config, client_id)
