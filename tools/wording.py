"""Prints the messages of the code in one table, or figures about its comments and docstrings, for an editor. Both are reports, not gates.

`python -m tools.wording messages [folder …]` lists each error, warning and log line with its place. `… words [folder …]` counts, by folder,
words that hide a noun (targets per 1,000 words: `what` 1.5, `that of` 0.3), comment lines (target: 5 % of the code lines), and module
heads without a verb. A verb is a word in VERBS, or the first word of some function's name in the third person.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click

from pykafka4 import errors
from tools.sizes import sources

ERRORS = {name for module in (builtins, errors, click.exceptions) for name, cls in vars(module).items() if isinstance(cls, type)}
LOGS = {"debug", "info", "warning", "error", "exception", "critical", "log", "warn", "add_note", "echo"}
COMPILED = re.compile(r"(?:Error|Full|Closed)\w*\(.*[\"']")
VERBS = {
    *("is", "are", "has", "have", "can", "may", "must", "will", "stays", "happens", "belongs", "knows", "means"),
    *("changes", "compiles", "defines", "provides", "downloads", "implements"),  # verbs of heads, with which no function's name begins
}
HIDDEN = [re.compile(pattern, re.IGNORECASE) for pattern in (r"\bwhat\b", r"\b(?:that|those) of\b")]
ROW = "{:28} {:>7} {:>5} {:>8} {:>9} {:>13}"


def texts(node: ast.AST) -> Iterator[str]:
    """The string literals below `node`, f-strings with their code in braces."""
    if isinstance(node, ast.JoinedStr):
        yield ast.unparse(node)[2:-1]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def messages(path: Path) -> Iterator[str]:
    source = path.read_text()
    if path.suffix != ".py":  # Cython, which `ast` cannot read
        yield from (f"{path} | compiled | {line.strip()}" for line in source.splitlines() if COMPILED.search(line))
    for node in ast.walk(ast.parse(source if path.suffix == ".py" else "")):
        if isinstance(node, ast.Call):
            method, _, name = ast.unparse(node.func).rpartition(".")
            text = " | ".join(part for each in node.args for part in texts(each) if " " in part)
            if text and (name in ERRORS or name.endswith("Error") or (method and name in LOGS)):
                yield f"{path}:{node.lineno} | {name} | " + text.replace("\n", "⏎")


def count(path: Path, verbs: set[str]) -> list[int]:
    """The figures of a file: words of comments and docstrings, both hidden nouns, comments, code lines, 1 for a head without a verb."""
    tree = ast.parse(path.read_text())
    tokens = list(tokenize.generate_tokens(io.StringIO(path.read_text()).readline))
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT and "noqa" not in token.string]
    code = {token.start[0] for token in tokens if token.type == tokenize.NAME}
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))]
    text = " ".join([*comments, *(ast.get_docstring(node) or "" for node in nodes)])
    head = re.split(r"[.:](?:\s|$)", ast.get_docstring(tree) or "")[0].lower().split()
    bare = bool(head) and not (len(head) > 2 and verbs & set(head))
    return [len(text.split()), *(len(pattern.findall(text)) for pattern in HIDDEN), len(comments), len(code), bare]


def words(files: list[Path]) -> Iterator[str]:
    """A row for each folder and one for all, then the files whose head lacks a verb."""
    names = re.findall(r"def _?([a-z]+)", " ".join(path.read_text() for path in files))
    counts = {path: count(path, VERBS | {f"{name}{end}" for name in names for end in ("s", "es")}) for path in files}
    yield ROW.format("folder", "words", "what", "that of", "comments", "bare heads")
    for folder in ["", *sorted({"/".join(path.parts[:2]) for path in files})]:
        rows = [row for path, row in counts.items() if str(path).startswith(folder)]
        total, what, of, comments, code, bare = map(sum, zip(*rows, strict=True))
        rates = f"{1000 * what / max(total, 1):.1f}", f"{1000 * of / max(total, 1):.1f}", f"{100 * comments / max(code, 1):.1f} %"
        yield ROW.format(folder or "all", total, *rates, bare)
    yield from (f"without a verb: {path}" for path, row in counts.items() if row[-1])


if __name__ == "__main__":
    found = list(sources(sys.argv[2:] or ["pykafka4"]))
    python = [path for path in found if path.suffix == ".py"]
    print("\n".join(words(python) if sys.argv[1] == "words" else chain.from_iterable(map(messages, found))))
