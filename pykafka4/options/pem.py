"""Restores the line ends of PEM text that passed through an environment variable, a secret store or a properties file."""

from __future__ import annotations

import re
import textwrap
from typing import Final

__all__ = ["restore_lines"]

_ESCAPED: Final = re.compile(r"(?:\\+r)?\\+n|\\+r")  # `\n`, `\r\n` or `\r` for a line end; neither base64 nor a label contains a backslash
_BLOCK: Final = re.compile(r"(-----BEGIN ([A-Z0-9 ]+)-----)(.*?)(-----END \2-----)", re.DOTALL)


def restore_lines(text: str) -> str:
    """Return the blocks of `text` with the lines that OpenSSL needs; a text without a block is returned unchanged."""
    blocks = _BLOCK.findall(_ESCAPED.sub("\n", text))
    return "".join(f"{begin}\n{_body(body)}\n{end}\n" for begin, _, body, end in blocks) or text


def _body(body: str) -> str:
    """Base64 in lines of 64 characters. A body with headers (`DEK-Info: …`) keeps its lines, without their indentation."""
    if ":" in body:
        return "\n".join(line.strip() for line in body.strip().splitlines())
    return "\n".join(textwrap.wrap("".join(body.split()), 64))
