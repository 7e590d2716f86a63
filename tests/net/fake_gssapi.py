"""A package gssapi without Kerberos. Rule: its names and errors are those of the real one, as far as the client uses them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

BASE = -1765328384 + (1 << 32)  # of Kerberos 5, as the package shows its codes: without a sign
UNSPECIFIED, NO_CREDENTIALS, BAD_TOKEN = 13 << 16, 7 << 16, 9 << 16
MUTUAL = "mutual"
TOKEN = b"client's token"


class GSSError(Exception):
    def __init__(self, major: int, minor: int, words: str = "") -> None:
        self.maj_code, self.min_code, self.words = major, minor, words

    def get_all_statuses(self, code: int, is_maj: bool) -> list[str]:
        return ["An invalid name was supplied" if is_maj else self.words]


def of_kerberos(number: int, words: str) -> GSSError:
    return GSSError(UNSPECIFIED, BASE + number, words)


class Library(ModuleType):
    """The module. `on_step` is called for each first token; `answers` are what contexts say later."""

    def __init__(self) -> None:
        super().__init__("gssapi")
        self.exceptions = ModuleType("exceptions")
        self.exceptions.GSSError = GSSError  # type: ignore[attr-defined]
        self.NameType = type("NameType", (), {"hostbased_service": "service", "kerberos_principal": "principal"})
        self.MechType = type("MechType", (), {"kerberos": "krb5"})
        self.RequirementFlag = type("RequirementFlag", (), {"mutual_authentication": MUTUAL})
        self.contexts: list[Context] = []
        self.on_step: Callable[[], Any] = lambda: None
        self.flags: set[str] = {MUTUAL}  # those that a context gets
        self.error: GSSError | None = None

    def Name(self, text: str, kind: str) -> tuple[str, str]:  # noqa: N802
        return text, kind

    def Credentials(self, name: Any, usage: str, mechs: list[str], store: Any) -> dict[str, Any]:  # noqa: N802
        return {"name": name, "usage": usage, "mechs": mechs, "store": store}

    def SecurityContext(self, **options: Any) -> Context:  # noqa: N802
        made = Context(self, options)
        self.contexts.append(made)
        return made


class Wrapped:
    def __init__(self, message: bytes) -> None:
        self.message = message


class Context:
    __DEFER_STEP_ERRORS__ = True

    def __init__(self, library: Library, options: dict[str, Any]) -> None:
        self.library, self.options, self.complete = library, options, False

    @property
    def actual_flags(self) -> set[str]:
        return self.library.flags

    def step(self, token: bytes | None) -> bytes | None:
        self.library.on_step()
        if self.library.error is not None:
            raise self.library.error
        self.complete = token is not None
        return TOKEN if token is None else None

    def wrap(self, content: bytes, encrypt: bool) -> Wrapped:
        assert not encrypt
        return Wrapped(b"signed " + content)

    def unwrap(self, message: bytes) -> Wrapped:
        if self.library.error is not None:
            raise self.library.error
        return Wrapped(message.removeprefix(b"signed "))
