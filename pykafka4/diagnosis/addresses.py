"""Checks the name, the port and the TLS handshake of one address. Invariant: `side_by_side` returns by its deadline, whatever the network
does.

The checks use no client: a client retries without end, but a check reports a failure at once.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from pykafka4.diagnosis.values import Finding, Outcome
from pykafka4.native import monotonic
from pykafka4.net.threads import Thread
from pykafka4.net.tls import Contexts, explain_handshake
from pykafka4.net.transport import explain
from pykafka4.options.security import SecurityConfig

__all__ = [
    "ADVERTISED",
    "BOOTSTRAP",
    "FROZEN",
    "PROXY",
    "SILENT_NAMES",
    "Address",
    "Role",
    "connect",
    "frozen",
    "look_up",
    "shake_hands",
    "shown_address",
    "side_by_side",
    "wall_s",
    "way_out",
]

T = TypeVar("T")
R = TypeVar("R")
Address: TypeAlias = tuple[str, int]
SocketAddress: TypeAlias = tuple[int, Any]  # (family, sockaddr)

NO_CHECK_TIME: Final = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, which Python does not name
SILENT_NAMES: Final = "the name servers of this machine do not respond: see /etc/resolv.conf"
DAY_S: Final = 86_400
# Each check's share of `seconds` in `side_by_side`: a check that reaches its own timeout reports more than a check that is cut off.
LOOK_SHARE: Final = 0.8
SILENT: Final = "no response"
SOON_S: Final = 14 * DAY_S  # a certificate that expires sooner gives a NOTICE
UNVERIFIED: Final = "the certificate is not verified: ssl_context has CERT_NONE"  # `ssl` then describes no certificate


@attrs.frozen
class Role:
    """The ways out that depend on the origin of an address."""

    name_fails: str
    port_refuses: str
    port_is_silent: str
    name_differs: str


BOOTSTRAP: Final = Role(
    "check the spelling in bootstrap_servers, and the DNS or hosts file of this machine (`getent hosts NAME`); names of containers "
    "and of a VPN resolve only inside their network",
    "nothing listens there: check the port in bootstrap_servers against `listeners` in the broker's server.properties, and whether the "
    "broker runs",
    "the host is down, or packets are dropped on the way: check routes, firewalls and security groups for this port",
    "connect to a name that the certificate is for, or have a certificate made for this name",
)
ADVERTISED: Final = Role(
    "clients connect to the name that the broker advertises: set advertised.listeners of the broker to a name that resolves here, or "
    "add it to DNS or the hosts file",
    "clients connect to the address that the broker advertises, and nothing listens there: correct advertised.listeners of the broker, or "
    "start the broker",
    "clients connect to the address that the broker advertises, and it cannot be reached from here: correct advertised.listeners of the "
    "broker, or the firewall",
    "the certificate has to be valid for the name in advertised.listeners of the broker",
)
PROXY: Final = Role(*["check proxy_url, and whether the proxy runs and can be reached from here"] * 4)
FROZEN: Final = (
    "the process is stopped, starved of CPU, or in a long garbage collection: see its log, and restart it if it does not come back"
)
CERTIFICATE: Final = "set ssl_certfile and ssl_keyfile to a certificate that the broker trusts"
WAYS: Final = (  # words of an error of a handshake or client, and the way out; the first matching row is used
    ("authority is not trusted", "set ssl_cafile to the certificate of the authority that signed the broker's"),
    ("self-signed", "set ssl_cafile to this certificate, or to the certificate of the authority that should have signed it"),
    ("the client's certificate", "renew the certificate in ssl_certfile"),
    ("has expired", "renew the broker's certificate; or set the clock of this machine"),
    ("not yet valid", "set the clock of this machine"),
    ("speaks TLS", "set security_protocol to SSL, or to SASL_SSL if the listener wants a login, too"),
    ("does not speak TLS", "set security_protocol to PLAINTEXT or SASL_PLAINTEXT, or use the port of the TLS listener"),
    ("certificate that it trusts", CERTIFICATE),
    ("demands a certificate", CERTIFICATE),
    ("may demand SASL", "set security_protocol, sasl_mechanism and credentials as the listener demands; or use another listener's port"),
    ("refused the credentials", "check sasl_username and sasl_password, and that the user exists in this cluster"),
    ("does not support this mechanism", "set sasl_mechanism to one that the broker offers"),
    ("ILLEGAL_SASL_STATE", "the listener wants no login: set security_protocol to PLAINTEXT or SSL, or use the port of the SASL listener"),
    ("HTTP", "the port belongs to a web server: use the port of a listener of Kafka"),
)
RENEW: Final = "renew the broker's certificate before then: afterwards this client cannot connect"
SHORT: Final = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU"}


@attrs.frozen
class LookResult(Generic[T]):
    """`passed` is the input of the next step; None if the address failed."""

    finding: Finding
    passed: T | None = None


def shown_address(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def way_out(error: str, otherwise: str) -> str:
    return next((way for words, way in WAYS if words in error), otherwise)


def frozen(step: str, about: str, evidence: str) -> Finding:
    """The kernel accepts connections even for a stopped process."""
    return Finding(step, about, Outcome.WRONG, "accepts connections, but does not respond", evidence, FROZEN)


def side_by_side(look: Callable[[T, float], R], items: Iterable[T], seconds: float) -> dict[T, R | None]:
    """Look at all items at once; the result of a call that does not return in time is None.

    Nothing can interrupt a resolver: its thread continues, and ends with the process at the latest. Other checks have timeouts,
    usually within LOOK_SHARE of the time.
    """
    found: dict[T, R | None] = dict.fromkeys(items)
    results: SimpleQueue[tuple[T, R]] = SimpleQueue()
    for each in found:
        Thread(lambda item=each: results.put((item, look(item, LOOK_SHARE * seconds))), name="pykafka4-diagnosis").start()
    until = monotonic() + seconds
    for _ in range(len(found)):
        try:
            item, result = results.get(timeout=max(0.0, until - monotonic()))
        except Empty:
            break
        found[item] = result
    return found


def wall_s() -> float:
    return time.time()


# -- names


def look_up(address: Address, _: float, role: Role) -> LookResult[list[SocketAddress]]:
    host = address[0]
    try:
        rows = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        way = SILENT_NAMES if getattr(error, "errno", None) == socket.EAI_AGAIN else role.name_fails
        return LookResult(Finding("names", host, Outcome.WRONG, "the name does not resolve", explain(error), way))
    found = list(dict.fromkeys((int(family), sockaddr) for family, _, _, _, sockaddr in rows))
    numbers = ", ".join(dict.fromkeys(str(sockaddr[0]) for _, sockaddr in found))
    what, evidence = ("an address, not a name", "") if numbers == host else ("name found", numbers)
    return LookResult(Finding("names", host, Outcome.FINE, what, evidence), found)


# -- ports


def connect(address: Address, numbers: list[SocketAddress], role: Role, seconds: float) -> LookResult[SocketAddress]:
    about, began = shown_address(address), monotonic()
    tried: list[str] = []
    for number in numbers:
        try:
            _dial(number, seconds / len(numbers)).close()  # a silent address leaves time for the others
        except OSError as error:
            tried.append(f"{number[1][0]}: {SILENT if isinstance(error, TimeoutError) else explain(error)}")
            continue
        took = f"{(monotonic() - began) * 1000:.1f} ms"
        return LookResult(Finding("ports", about, Outcome.FINE, "port open", "; ".join([*tried, took])), number)
    refused = all("refused" in why for why in tried)
    what, way = ("refuses connections", role.port_refuses) if refused else ("cannot be reached", role.port_is_silent)
    return LookResult(Finding("ports", about, Outcome.WRONG, what, "; ".join(tried), way))


def _dial(number: SocketAddress, seconds: float) -> socket.socket:
    family, place = number
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(max(0.01, seconds))
    try:
        sock.connect(place)
    except BaseException:
        sock.close()
        raise
    return sock


# -- TLS


def shake_hands(
    address: Address, number: SocketAddress, role: Role, config: SecurityConfig, context: ssl.SSLContext, seconds: float
) -> LookResult[SocketAddress]:
    about, seconds = shown_address(address), seconds / 3  # one handshake, and two to describe the certificate
    try:
        with _dial(number, seconds) as sock, context.wrap_socket(sock, server_hostname=address[0]) as tls:
            certificate, version = tls.getpeercert() or {}, tls.version()
    except TimeoutError:
        return LookResult(frozen("tls", about, f"no handshake in {seconds:.1f} s"))
    except (OSError, ValueError) as error:
        why = [str(explain_handshake(about, error, b"")).removeprefix(f"{about}: ")]
        if isinstance(error, ssl.SSLCertVerificationError):
            why += _refused(config, address[0], number, seconds)
        way = way_out(why[0], role.name_differs)
        return LookResult(Finding("tls", about, Outcome.WRONG, "the TLS handshake fails", "; ".join(why), way))
    ends = certificate.get("notAfter")
    left = ssl.cert_time_to_seconds(str(ends)) - wall_s() if ends else SOON_S
    evidence = f"{version}, {_described(certificate) if certificate else UNVERIFIED}"
    if left < SOON_S:
        return LookResult(
            Finding("tls", about, Outcome.NOTICE, f"the certificate expires in {left / DAY_S:.1f} days", evidence, RENEW), number
        )
    return LookResult(Finding("tls", about, Outcome.FINE, "handshake done", evidence), number)


def _refused(config: SecurityConfig, host: str, number: SocketAddress, seconds: float) -> list[str]:
    """Describe the refused certificate; an empty list if that fails, or if the application made the `ssl_context`.

    `ssl` parses only certificates that it has verified. So a first handshake fetches the certificate without a check, and a second
    handshake trusts this certificate, without its issuer and whatever its dates.
    """
    if config.ssl_context is not None:
        return []
    blind, narrow = Contexts(config).current(), Contexts(config).current()
    blind.check_hostname = narrow.check_hostname = False
    blind.verify_mode = ssl.CERT_NONE
    narrow.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | NO_CHECK_TIME
    try:
        with _dial(number, seconds) as sock, blind.wrap_socket(sock, server_hostname=host) as tls:
            narrow.load_verify_locations(cadata=tls.getpeercert(binary_form=True))
        with _dial(number, seconds) as sock, narrow.wrap_socket(sock, server_hostname=host) as tls:
            return [_described(tls.getpeercert() or {})]
    except (OSError, ValueError):
        return []


def _described(certificate: Mapping[str, Any]) -> str:
    names = ", ".join(name for _, name in certificate.get("subjectAltName", ())) or "no host"
    subject, issuer = _name(certificate.get("subject", ())), _name(certificate.get("issuer", ()))
    return f"certificate of {subject} for {names}, signed by {issuer}, valid until {certificate.get('notAfter', 'an unknown date')}"


def _name(parts: Any) -> str:
    return ", ".join(f"{SHORT.get(key, key)}={value}" for part in parts for key, value in part) or "nobody"
