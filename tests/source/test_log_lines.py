"""Each log line begins with the client's id, as docs/guide/logging.md promises; lines that concern the whole process are listed here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "pykafka4"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
CLIENT = re.compile(r"(?:^|\.)_?(?:client_id|log_name|where)$")  # `log_name`, `where`: begin with the client id
# By the beginnings of module and message: why there is no client to name.
PROCESS_WIDE = {
    ("agent/", ""): "the agent is a process with one client",
    ("net/logs.py", "the logging handlers are too slow"): "one thread runs the logging handlers for all clients",
    ("net/tls.py", "the key in %s can be read"): "each file is warned of once per process",
    ("options/security.py", "security_protocol=SASL_PLAINTEXT"): "warned of once per process",
    ("spark/options.py", "option %s"): "the options of a data source are read before there is a client",
    ("spark/source/options.py", "option kafka."): "the options of a data source are read before there is a client",
    ("spark/sink/", ""): "of a whole job or micro-batch of Spark, of which each task has clients of its own",
    ("wire/records/checksum.py", ""): "the implementation of CRC-32C is chosen once per process",
    ("wire/records/hot.py", "the compiled core cannot be used"): "the core is chosen once per process, before there is a client",
}


def calls_in_python(path: Path) -> Iterator[tuple[str, str]]:
    """(message, source of its first argument) of each log call."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
            continue
        log = node.func.value
        of_logging = isinstance(log, ast.Call) and "getLogger" in ast.unparse(log.func)
        if of_logging or (isinstance(log, ast.Name) and log.id in {"log", "_log"}):
            message = node.args[0]
            text = str(message.value) if isinstance(message, ast.Constant) else ""
            yield text, ast.unparse(node.args[1]) if len(node.args) > 1 else ""


def calls_in_cython(path: Path) -> Iterator[tuple[str, str]]:
    """As `calls_in_python`, for the parts of the compiled core."""
    for call in re.finditer(r"\b_log\.\w+\(\s*(?:\"([^\"]*)\",\s*([\w.]+))?", path.read_text()):
        yield call[1] or "", call[2] or ""


def calls() -> list[tuple[str, str, str]]:
    """(module, message, first argument) of each log call of the client."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        found += [(path.relative_to(PACKAGE).as_posix(), *call) for call in calls_in_python(path)]
    for path in sorted(PACKAGE.rglob("*.p[xy][xi]")):
        if path.suffix != ".pyi":
            found += [(path.relative_to(PACKAGE).as_posix(), *call) for call in calls_in_cython(path)]
    return [call for call in found if not call[0].startswith("testing/")]


def test_each_log_line_begins_with_the_client_id() -> None:
    found = calls()
    assert len(found) > 100
    assert [call for call in found if not is_process_wide(*call[:2]) and not (call[1].startswith("%s: ") and CLIENT.search(call[2]))] == []


def is_process_wide(module: str, message: str) -> bool:
    return any(module.startswith(where) and message.startswith(start) for where, start in PROCESS_WIDE)


def test_every_line_of_the_list_is_logged() -> None:
    found = calls()
    assert [
        line for line in PROCESS_WIDE if not any(module.startswith(line[0]) and message.startswith(line[1]) for module, message, _ in found)
    ] == []
    assert {"wire/records/compiled/_append.pxi", "core/network/journal.py", "net/loop.py", "producer/session.py"} <= {
        call[0] for call in found
    }
