"""Checks settings against this machine, and summarizes them. Invariant: a check opens and changes no socket or file of the settings."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pykafka4.agent.inputs.sockets import InputError, check_datagram_size, owner_and_group
from pykafka4.agent.producing import producer_options
from pykafka4.agent.service.privileges import Identity, identity_of, may
from pykafka4.agent.settings.values import AgentSettings, UnixSettings
from pykafka4.errors import ConfigError
from pykafka4.options.config import ProducerConfig

__all__ = ["check", "summary"]

OF_PAGES: Final = ("aiohttp", "prometheus_client")  # packages that only the pages need


def check(settings: AgentSettings) -> list[str]:
    """Return the reasons why the settings cannot work on this machine, one line each."""
    found = (_input_problems, _identity_problems, _folder_problems, _writing_problems, _producer_problems, _package_problems)
    return [problem for problems in found for problem in problems(settings)]


def _input_problems(settings: AgentSettings) -> Iterator[str]:
    inputs = settings.inputs
    for key, unix in (("unix_datagram", inputs.unix_datagram), ("unix_stream", inputs.unix_stream)):
        try:
            if unix is not None:
                owner_and_group(unix)
        except InputError as error:
            yield f"inputs.{key}: {error}"
    try:
        if inputs.unix_datagram is not None:
            check_datagram_size(inputs.max_datagram_size, allow_large=inputs.allow_large_datagrams)
    except InputError as error:
        yield f"inputs: {error}"


def _identity_problems(settings: AgentSettings) -> Iterator[str]:
    try:
        identity = _identity(settings)
    except ConfigError as error:
        yield f"service.{error}"
        return
    if identity is not None and os.geteuid() not in (0, identity.uid):
        yield (
            f"service.user={identity.name!r}: only root can change its user, and this is user {os.geteuid()}; start the agent as root, or "
            "leave out `user`"
        )


def _identity(settings: AgentSettings) -> Identity | None:
    user = settings.service.user
    return None if user is None else identity_of(user, settings.service.group)


def _writing_problems(settings: AgentSettings) -> Iterator[str]:
    """Check the folders that the agent writes to after it has changed its user."""
    try:
        identity = _identity(settings)
    except ConfigError:
        return
    tables = {"discard_log": settings.discard_log, "spool": settings.spool}
    for key, table in tables.items():
        if table is None or not table.path.parent.is_dir():
            continue
        place = table.path if key == "spool" and table.path.is_dir() else table.path.parent
        if not may(identity, place, os.W_OK):
            yield f"{key}.path={str(table.path)!r}: {_user(identity)} may not write to the folder {place}"


def _user(identity: Identity | None) -> str:
    return f"user {os.geteuid()}" if identity is None else f"user {identity.name}"


def _folder_problems(settings: AgentSettings) -> Iterator[str]:
    """Check that the folders of all paths exist: the agent creates only the spool's own folder."""
    for key, path in _paths(settings):
        if not path.parent.is_dir():
            yield (
                f"{key}={str(path)!r}: the folder {path.parent} does not exist; create it, or let systemd do it (RuntimeDirectory= for a "
                "socket, StateDirectory= for the spool, LogsDirectory= for the discard log)"
            )
        elif key != "spool.path" and path.is_dir():
            yield f"{key}={str(path)!r}: this path is a folder; choose the path of a file"


def _paths(settings: AgentSettings) -> list[tuple[str, Path]]:
    inputs = settings.inputs
    tables = {
        "inputs.unix_datagram": inputs.unix_datagram,
        "inputs.unix_stream": inputs.unix_stream,
        "discard_log": settings.discard_log,
        "spool": settings.spool,
    }
    return [(f"{key}.path", table.path) for key, table in tables.items() if table is not None]


def _producer_problems(settings: AgentSettings) -> Iterator[str]:
    try:
        config = ProducerConfig.parse(producer_options(settings))
    except ConfigError as error:
        yield f"kafka and topics: {error}"
        return
    with contextlib.suppress(ConfigError):  # reported by _identity_problems
        identity = _identity(settings)
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
            path = getattr(config, name)
            if path is not None and not may(identity, Path(path), os.R_OK):
                yield f"kafka.{name}={path!r}: cannot be read by {_user(identity)}"


def _package_problems(settings: AgentSettings) -> Iterator[str]:
    missing = [name for name in OF_PAGES if importlib.util.find_spec(name) is None]
    if settings.http is not None and missing:
        yield f"http: the pages need {' and '.join(missing)}: pip install 'pykafka4[agent]', or set [http] enabled = false"


def summary(settings: AgentSettings, file: Path) -> str:
    """Return a table of the settings that concern this machine and the cluster."""
    rows = [("settings", f"{file}: no errors"), *_inputs(settings), *_others(settings)]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {text}\n" for name, text in rows)


def _inputs(settings: AgentSettings) -> Iterator[tuple[str, str]]:
    inputs = settings.inputs
    for name, unix in (("UNIX datagram", inputs.unix_datagram), ("UNIX stream", inputs.unix_stream)):
        if unix is not None:
            yield name, f"{unix.path}{_rights(unix)}"
    if inputs.tcp is not None:
        yield "TCP", f"{inputs.tcp.host}:{inputs.tcp.port or 'any port'}"
    yield "memory", f"{inputs.max_buffer:,} bytes for messages that wait"


def _rights(unix: UnixSettings) -> str:
    owner = ":".join(filter(None, (unix.owner or "", unix.group or "")))
    return (f", mode 0{unix.mode:03o}" if unix.mode is not None else "") + (f", owner {owner}" if owner else "")


def _others(settings: AgentSettings) -> Iterator[tuple[str, str]]:
    config = ProducerConfig.parse(producer_options(settings))
    security = f", {config.security_protocol}" + (f" with {config.sasl_mechanism}" if config.sasl_mechanism else "")
    yield "Kafka", ", ".join(f"{host}:{port}" for host, port in config.bootstrap_servers) + security
    named = ", ".join(settings.topics.named)
    yield "topics", f"default: {settings.topics.default.batching}" + (f"; with a table: {named}" if named else "")
    if settings.http is not None:
        yield "pages", f"http://{settings.http.host}:{settings.http.port}/"
    if settings.spool is not None:
        yield "spool", f"{settings.spool.path}, up to {settings.spool.max_size:,} bytes"
    if settings.discard_log is not None:
        yield "discard log", str(settings.discard_log.path)
    identity = _identity(settings)
    if identity is not None:
        yield "user", f"{identity.name} ({identity.uid}), groups {', '.join(map(str, identity.groups))}"
