"""Runs a realm of Kerberos with Debian's KDC, from a temporary folder on 127.0.0.1. Invariant: no Kerberos file of the system is read or
changed.

`environment` is all that Kerberos libraries and programs need to find the realm. Java reads `config`.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from integration.host import prerequisites
from integration.host.ports import HOST, Ports
from integration.host.ward import guard, tail
from integration.waiting import until

__all__ = ["Realm", "missing"]

KDC = "kdc"
READY_S, COMMAND_S = 30.0, 60.0
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
INSTALL = "apt-get install -y krb5-kdc krb5-admin-server krb5-user"
PROGRAMS = dict.fromkeys(("krb5kdc", "kdb5_util", "kadmin.local", "kinit"), f"it is a part of the tests' realm; {INSTALL}")

PACKAGE = "apt-get install -y gcc libkrb5-dev && pip install -e '.[gssapi]'"

# Host names are used unchanged: no library asks a DNS server.
CONFIG = """
[libdefaults]
    default_realm = {name}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
[realms]
    {name} = {{
        kdc = {host}:{port}
    }}
"""
PROFILE = """
[kdcdefaults]
    kdc_listen = {host}:{port}
    kdc_tcp_listen = {host}:{port}
[realms]
    {name} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/acl
        max_life = 10h
        max_renewable_life = 1d
        supported_enctypes = aes256-cts:normal
    }}
"""


def missing() -> list[str]:
    """A line for each part that a realm or its clients lack."""
    package = [] if importlib.util.find_spec("gssapi") else [f"the package gssapi is missing: clients need it for GSSAPI; {PACKAGE}"]
    return [*prerequisites.missing(PROGRAMS, PATH), *package]


class Realm:
    """As a context manager: up on entry, everything gone on exit."""

    def __init__(self, name: str = "PYKAFKA4.TEST") -> None:
        self.name = name

    def __enter__(self) -> Self:
        prerequisites.require(*prerequisites.missing(PROGRAMS, PATH))
        self.ports, self.ward = Ports(), guard(Path(tempfile.gettempdir()))
        try:
            self.port, self.folder = self.ports.take(), self.ward.scratch
            values = {"name": self.name, "host": HOST, "port": self.port, "folder": self.folder}
            self.config, profile = self.folder / "krb5.conf", self.folder / "kdc.conf"
            self.config.write_text(CONFIG.format(**values))
            profile.write_text(PROFILE.format(**values))
            self.environment = {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(profile)}
            self.run("kdb5_util", "create", "-s", "-r", self.name, "-P", secrets.token_hex(16))
            self.ports.release(self.port)
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.ward.close()
        self.ports.close()

    # -- the KDC -----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        log = self.folder / "kdc.log"
        settings = [f"{name}={value}" for name, value in self.environment.items()]
        self.ward.start(KDC, ["env", *settings, self.program("krb5kdc"), "-n", "-r", self.name], log, self.folder)
        until(self.listens, READY_S, lambda: f"the KDC to listen; its log ends with{tail(log)}")

    def stop(self) -> None:
        """The KDC's port refuses connections."""
        self.ward.signal(KDC, signal.SIGKILL)
        until(lambda: not self.listens(), READY_S, "the KDC to end")

    def freeze(self) -> None:
        """The KDC receives requests, and does not answer."""
        self.ward.signal(KDC, signal.SIGSTOP)

    def thaw(self) -> None:
        self.ward.signal(KDC, signal.SIGCONT)

    def listens(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), 1).close()
        except OSError:
            return False
        return True

    # -- principals and tickets --------------------------------------------------------------------------------------------

    def principal(self, name: str) -> str:
        return f"{name}@{self.name}"

    def add(self, *names: str) -> Path:
        """Create principals with random keys; return a new keytab with these keys."""
        keytab = self.folder / f"{secrets.token_hex(8)}.keytab"
        for name in names:
            self.administer(f"addprinc -randkey {name}")
        self.export(keytab, *names)
        return keytab

    def export(self, keytab: Path, *names: str) -> None:
        """Other keys in the keytab stay."""
        self.administer(f"ktadd -norandkey -k {keytab} {' '.join(names)}")

    def administer(self, query: str) -> str:
        return self.run("kadmin.local", "-r", self.name, "-q", query)

    def log_in(self, cache: Path, keytab: Path, name: str, lifetime: str = "1h") -> None:
        self.run("kinit", "-c", str(cache), "-k", "-t", str(keytab), "-l", lifetime, self.principal(name))

    def has_expired(self, cache: Path) -> bool:
        return self.call("klist", "-s", "-c", str(cache)).returncode != 0

    def run(self, program: str, *arguments: str) -> str:
        done = self.call(program, *arguments)
        if done.returncode:
            raise RuntimeError(f"{program} {' '.join(arguments[:2])} … ended with {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def call(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.environment}
        command = [self.program(program), *arguments]
        quiet: Any = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        return subprocess.run(command, env=environment, timeout=COMMAND_S, check=False, **quiet)

    @staticmethod
    def program(name: str) -> str:
        found = shutil.which(name, path=PATH)
        assert found is not None, name
        return found
