"""Checks names, ports, TLS and logins of the bootstrap servers. Invariant: later checks leave out an address that has failed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import Any, Final

import attrs

from pykafka4.diagnosis.addresses import (
    BOOTSTRAP,
    FROZEN,
    PROXY,
    SILENT_NAMES,
    Address,
    LookResult,
    Role,
    connect,
    frozen,
    look_up,
    shake_hands,
    shown_address,
    side_by_side,
    way_out,
)
from pykafka4.diagnosis.case import CLOSE_S, Case
from pykafka4.diagnosis.values import Finding, Outcome
from pykafka4.errors import ConfigError, KafkaError

__all__ = ["look_at", "look_at_logins", "look_at_names", "look_at_ports", "look_at_tls"]

SILENT: Final = ("response within", "no response", "not done within")  # words of a client's errors about a broker that does not respond
UNKNOWN_WAY: Final = "docs/guide/security.md, 'When it does not work', explains the message; the broker's log has its side"


def look_at_names(case: Case, seconds: float) -> Iterator[Finding]:
    """Check that the names in bootstrap_servers resolve; with a proxy, only the proxy's name: the proxy resolves the other names."""
    return look_at("names", case, *_first(case), seconds)


def look_at_ports(case: Case, seconds: float) -> Iterator[Finding]:
    return look_at("ports", case, *_first(case), seconds)


def look_at_tls(case: Case, seconds: float) -> Iterator[Finding]:
    """Check TLS handshakes and the names in certificates. With a proxy, this step checks nothing: the login finds TLS faults."""
    return look_at("tls", case, case.servers if case.config.proxy_url is None else [], BOOTSTRAP, seconds)


def _first(case: Case) -> tuple[list[Address], Role]:
    proxy = case.config.proxy_url
    return (case.servers, BOOTSTRAP) if proxy is None else ([(str(proxy.host), proxy.port)], PROXY)


def look_at(step: str, case: Case, addresses: Sequence[Address], role: Role, seconds: float) -> Iterator[Finding]:
    """`step`: names, ports or tls. Equal findings are yielded once."""
    looks: dict[str, tuple[Callable[[Address, float], LookResult[Any]], Container[Address], dict[Address, Any], str]] = {
        "names": (partial(look_up, role=role), addresses, case.resolved, SILENT_NAMES),
        "ports": (lambda one, limit: connect(one, case.resolved[one], role, limit), case.resolved, case.reachable, role.port_is_silent),
        "tls": (
            lambda one, limit: shake_hands(one, case.reachable[one], role, case.config, case.tls, limit),
            case.reachable,
            case.reachable,
            FROZEN,
        ),
    }
    look, before, passed, silent = looks[step]
    told: set[Finding] = set()  # a host with two ports has one finding for its name
    for address, seen in side_by_side(look, [one for one in addresses if one in before], seconds).items():
        if seen is None:
            about = address[0] if step == "names" else shown_address(address)
            seen = LookResult(Finding(step, about, Outcome.WRONG, "does not respond", f"nothing in {seconds:.1f} s", silent))
        if seen.passed is None:
            passed.pop(address, None)
            case.faulty.add(address)
        else:
            passed[address] = seen.passed
        if seen.finding not in told:
            told.add(seen.finding)
            yield seen.finding


# -- logins


@attrs.frozen
class Login:
    cluster_id: str | None = None
    error: str = ""


def look_at_logins(case: Case, seconds: float) -> Iterator[Finding]:
    # With a proxy, the step `ports` checked only the proxy's port: if the port is open, the login tries all servers.
    wanted = [server for server in case.servers if server in case.reachable or (case.config.proxy_url and case.reachable)]
    found = side_by_side(partial(_log_in, case), wanted, seconds)
    ids: dict[str | None, Address] = {}
    for address, login in found.items():
        if isinstance(login, ConfigError):
            raise login
        if login is None or login.error:
            case.faulty.add(address)
            yield _refusal(address, login.error if login is not None else "", seconds)
        else:
            case.login_servers.append(address)
            ids[login.cluster_id] = address
            yield Finding("login", shown_address(address), Outcome.FINE, "this client is let in", _as_whom(case))
    if len(ids) > 1:
        evidence = "; ".join(f"{shown_address(address)} is of {name}" for name, address in ids.items())
        yield Finding("login", "", Outcome.WRONG, "the bootstrap servers are of different clusters", evidence, "correct bootstrap_servers")


def _log_in(case: Case, address: Address, seconds: float) -> Login | ConfigError:
    try:
        client = case.client_of([address], seconds)
    except ConfigError as error:  # an option that needs a package, for example
        return error
    try:
        client.refresh_metadata([], seconds)
        return Login(client.status()["cluster_id"])
    except KafkaError as error:  # usually a timeout: the connection's own error says more
        links = client.status()["brokers"]
        return Login(error=next((link["error"] for link in links if link["error"]), str(error)))
    finally:
        client.close(CLOSE_S)


def _refusal(address: Address, error: str, seconds: float) -> Finding:
    about = shown_address(address)
    why = error.removeprefix(f"{about}: ")
    if not why or any(words in why for words in SILENT):
        return frozen("login", about, why or f"nothing in {seconds:.1f} s")
    return Finding("login", about, Outcome.WRONG, "does not let this client in", why, way_out(why, UNKNOWN_WAY))


def _as_whom(case: Case) -> str:
    config = case.config
    return f"{config.security_protocol}, {config.sasl_mechanism}" if config.authenticates else config.security_protocol
