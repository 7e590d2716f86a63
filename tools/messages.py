"""Renders docs/reference/messages.md from the declarations of messages; the page is never edited by hand.

`python -m tools.messages` writes the page; with `--check` it only checks that the page is up to date.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from pykafka4 import messages
from pykafka4.core.admin.requests import READERS
from pykafka4.wire.protocol.fields import Versions
from pykafka4.wire.protocol.schema import Request
from tools.rendered import ROOT, write_or_check

PAGE = ROOT / "docs" / "reference" / "messages.md"
INTRODUCTION = """# Messages

<!-- Rendered from the declarations in `pykafka4/wire/protocol/` by `make messages`. -->

Each row is a request that [`Client.request`](../guide/low-level.md#any-message) sends (except SaslHandshake and SaslAuthenticate):
`from pykafka4.messages import MetadataRequest`. Its response is the class with `Response` in place of `Request`. Fields are keyword
arguments, with the names of Kafka's message definitions in snake case. The parts of a message are classes inside it:
`MetadataRequest.Topic(name="orders")`. `help(MetadataRequest)` lists them. A field that is set must exist in the negotiated version;
`max_version` lowers that version.

"from Kafka": the first release whose brokers accept the lowest of these versions. "repeated": the request changes nothing, so it is sent
again after a lost connection, and to the new leader or coordinator after a move. A Fetch in a session is not repeated.

| key | request | versions | from Kafka | repeated | meaning |
|---|---|---|---|---|---|
"""


def requests() -> list[type[Request[Any]]]:
    found = [getattr(messages, name) for name in messages.__all__ if name.endswith("Request")]
    return sorted(found, key=lambda cls: cls.api_key)


def row(cls: type[Request[Any]]) -> str:
    name = cls.__name__.removesuffix("Request")
    meaning = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].replace("\n", " ").replace("|", r"\|")
    repeated = "yes" if name in READERS else "no"
    return f"| {cls.api_key} | `{cls.__name__}` | {span(cls.versions)} | {cls.since} | {repeated} | {meaning} |"


def span(versions: Versions) -> str:
    return str(versions.lo) if versions.lo == versions.hi else f"{versions.lo} to {versions.hi}"


def render() -> str:
    return INTRODUCTION + "\n".join(map(row, requests())) + "\n"


def main() -> int:
    return write_or_check({PAGE: render()}, "messages")


if __name__ == "__main__":
    sys.exit(main())
