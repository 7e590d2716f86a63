"""Commands on a model cluster with topic `t`, in this process."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from pykafka4.cli.main import run
from pykafka4.testing import ModelServer


@attrs.frozen
class Ran:
    code: int
    out: bytes
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def command(server: ModelServer, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    def call(*arguments: str) -> Ran:
        place = [] if "--bootstrap" in arguments else ["--bootstrap", server.bootstrap_servers]
        code = run([*arguments, "--timeout", "10", *place])
        out = capsysbinary.readouterr()
        return Ran(code, out.out, out.err.decode())

    return call
