"""Reads the HTML, CSS, JavaScript and icon of pages."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

__all__ = ["page_files"]

SHARED: Final = {"/page.css": "page.css", "/base.js": "base.js", "/icon.svg": "icon.svg"}
KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def page_files(package: str, own: Mapping[str, str]) -> dict[str, tuple[bytes, str]]:
    """The content and type of the file at each path: `own` files of `package`, and the files that all pages share."""
    found = {path: ("pykafka4.pages", name) for path, name in SHARED.items()} | {path: (package, name) for path, name in own.items()}
    return {path: ((files(home) / "page" / name).read_bytes(), KINDS[name.rpartition(".")[2]]) for path, (home, name) in found.items()}
