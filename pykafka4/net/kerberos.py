"""Gets Kerberos tickets for GSSAPI. Invariant: each AuthenticationError names the reason and a way out.

Do not call this module on the loop, because the library may wait for a KDC.

The package `gssapi` is imported only for GSSAPI: it is an extra, because it may have to be built from source. Without a keytab, each
authentication reads the tickets from the default cache (`kinit`). With a keytab, the Kerberos library gets the tickets and keeps them in
memory. All clients of this process with the same keytab and principal share a cache, because the library never frees a cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from typing import Any, Final

from pykafka4.core.sasl.gssapi import Gssapi
from pykafka4.core.sasl.mechanism import failed
from pykafka4.errors import AuthenticationError, ConfigError
from pykafka4.errors.peer_text import visible
from pykafka4.net.handoff.turns import turn_of

__all__ = ["INSTALL", "Kerberos"]

INSTALL: Final = "pip install 'pykafka4[gssapi]', which needs a C compiler and the headers of Kerberos: apt-get install -y gcc libkrb5-dev"
TRACE: Final = "KRB5_TRACE=/dev/stderr in the environment shows what the library does"
NO_TICKET: Final = "run `kinit` as the user of this process, or set sasl_kerberos_keytab"

BASE: Final = -1765328384  # the library's number for code 0 of Kerberos 5 (RFC 4120, section 7.5.9)
KERBEROS_CODES: Final = range(256)
UNREACHABLE: Final = frozenset({156, 220})  # no KDC answers; the KDC's address cannot be resolved
NO_KEY: Final = frozenset({141, 181, 195})  # no such ticket or cache; no key in the keytab; no file of the cache
ADVICE: Final = {
    6: "check sasl_kerberos_principal",
    7: "check sasl_kerberos_service_name, and the host in bootstrap_servers or advertised.listeners: the KDC has to know {service}",
    18: "the account is locked or has expired; ask the administrator of the KDC",
    24: "the key in the keytab is not the one that the KDC has; export it again (`ktadd`)",
    31: "the key in the keytab is not the one that the KDC has; export it again (`ktadd`)",
    32: NO_TICKET,
    33: "check the clocks of this machine, of the KDC and of the broker",
    37: "check the clocks of this machine, of the KDC and of the broker",
    156: "check the realm and its `kdc` in krb5.conf (or $KRB5_CONFIG), and the network",
    220: "check the realm and its `kdc` in krb5.conf (or $KRB5_CONFIG), and the DNS",
}


class Kerberos:
    """The tickets of one client. For any thread."""

    def __init__(self, service: str, principal: str | None, keytab: str | None) -> None:
        """`service` is the first part of the brokers' principals. Raises ConfigError if the package is missing."""
        self._gssapi = _package()
        self._service, self._principal, self._keytab = service, principal, keytab
        self._store: dict[str, str] | None = None
        # One thread at a time: several threads that renew the ticket in one cache would empty it for each other.
        self._turn: Any = contextlib.nullcontext() if keytab is None else turn_of(digest(keytab, principal))
        if keytab is not None:
            self._store = {"client_keytab": keytab, "ccache": f"MEMORY:{digest(keytab, principal)}"}

    def mechanism(self, host: str) -> Gssapi:
        """Return the mechanism with a ticket for `host`. Blocks while the library waits for the KDC.

        Raises AuthenticationError if there is no ticket.
        """
        service = f"{self._service}/{host}"
        try:
            with self._turn:
                context = self._context(host)
                token = context.step(None)
            return Gssapi(CheckedContext(self._gssapi, context), token, service)
        except self._gssapi.exceptions.GSSError as error:
            reason, code = _said(error), _kerberos_code(error)
        raise self._explained(reason, code, service)

    def _context(self, host: str) -> Any:
        gssapi = self._gssapi
        kerberos = gssapi.MechType.kerberos
        target = gssapi.Name(f"{self._service}@{host}", gssapi.NameType.hostbased_service)
        who = None if self._principal is None else gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
        tickets = gssapi.Credentials(name=who, usage="initiate", mechs=[kerberos], store=self._store)
        flags = [gssapi.RequirementFlag.mutual_authentication]
        context = gssapi.SecurityContext(name=target, creds=tickets, mech=kerberos, flags=flags, usage="initiate")
        context.__DEFER_STEP_ERRORS__ = False  # otherwise a `step` that fails returns a token, and the next call raises the error
        return context

    def _explained(self, reason: str, code: int, service: str) -> AuthenticationError:
        if code in NO_KEY and self._keytab is not None:
            whose = f"a key of {self._principal}" if self._principal else "a key"
            advice = f"check that sasl_kerberos_keytab={self._keytab!r} can be read and has {whose} (`klist -k {self._keytab}`)"
        elif code in NO_KEY:
            advice = NO_TICKET + (f" (the ticket must belong to {self._principal})" if self._principal else "")
        else:
            advice = ADVICE.get(code, TRACE).format(service=service)
        error = failed(f"no ticket for {service}: {reason}; {advice}")
        error.certain = code in NO_KEY or (code in ADVICE and code not in UNREACHABLE)
        return error


class CheckedContext:
    """The library's context, with AuthenticationErrors instead of the library's errors."""

    def __init__(self, gssapi: Any, context: Any) -> None:
        self._gssapi, self._context = gssapi, context

    def step(self, token: bytes) -> tuple[bytes, bool]:
        return self._call(self._step, token)  # type: ignore[no-any-return]

    def unwrap(self, message: bytes) -> bytes:
        return bytes(self._call(self._context.unwrap, message).message)

    def wrap(self, content: bytes) -> bytes:
        return bytes(self._call(self._context.wrap, content, False).message)

    def _step(self, token: bytes) -> tuple[bytes, bool]:
        answer = self._context.step(token) or b""
        mutual = self._gssapi.RequirementFlag.mutual_authentication
        return answer, bool(self._context.complete and mutual in self._context.actual_flags)

    def _call(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._gssapi.exceptions.GSSError as error:
            reason = _said(error)
        raise failed(f"the broker's message is refused: {reason}; check the program that listens there, and the clocks of both machines")


def digest(keytab: str, principal: str | None) -> str:
    return f"pykafka4-{hashlib.sha256(repr((keytab, principal)).encode()).hexdigest()[:32]}"


def _package() -> Any:
    try:
        return importlib.import_module("gssapi")
    except ImportError as error:  # also if the package is there, but the C library is not
        raise ConfigError(f"sasl_mechanism=GSSAPI needs the package gssapi ({error}): {INSTALL}") from error


def _kerberos_code(error: Any) -> int:
    """Return the code relative to BASE; a code outside KERBEROS_CODES does not belong to Kerberos 5."""
    signed = error.min_code - (1 << 32) if error.min_code >= 1 << 31 else error.min_code
    return int(signed) - BASE


def _said(error: Any) -> str:
    """Return the text of the minor code; if that code does not belong to Kerberos 5, the text of GSSAPI's major code comes first."""
    words = error.get_all_statuses(error.min_code, False)
    if _kerberos_code(error) not in KERBEROS_CODES:
        words = [*error.get_all_statuses(error.maj_code, True), *words]
    return f"'{visible('; '.join(words))}'"
