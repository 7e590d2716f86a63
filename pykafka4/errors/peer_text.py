"""Filters the texts of brokers, proxies and other clients before a message, log line or status shows them.

Invariant: a filtered text has no control characters, has a bounded length, and repeats none of the given secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["HIDDEN", "LONGEST_HOST", "SHOWN", "TELLING", "UNSHOWN", "escaped", "filtered", "repeats", "visible"]

SHOWN: Final = 200  # characters of a text that a message repeats
LONGEST_HOST: Final = 255  # characters of a host name (RFC 1035)
TELLING: Final = 12  # characters in a row; a remote text that shares this many with a secret is not shown
HIDDEN: Final = "<hidden>"
UNSHOWN: Final = "(its words are not shown, because they repeat a secret)"


def escaped(text: str) -> str:
    """`text` with escapes in place of control characters, which can forge log lines and change terminals."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def visible(text: str, most: int = SHOWN) -> str:
    return escaped(text) if len(text) <= most else f"{escaped(text[:most])}… ({len(text):,} characters)"


def repeats(text: str, secrets: Iterable[str]) -> bool:
    """Whether `text` contains TELLING characters in a row of one of `secrets`, or all of a shorter secret."""
    parts = {text[at : at + TELLING] for at in range(len(text) - TELLING + 1)}
    return any((any(part in s for part in parts) if len(s) >= TELLING else s in text) for s in secrets if s)


def filtered(text: str, secrets: Iterable[str], user: str = "") -> str:
    """`text` for a message: UNSHOWN if it repeats a secret; `user`, a SASL user name, is replaced by HIDDEN, except inside a word."""
    # `visible` cuts the text at SHOWN. A secret across the cut is found with the next TELLING characters; without them its first part would
    # be shown. Both forms are checked: HIDDEN for a long user name brings later characters before the cut, and a secret may contain `user`.
    shown = re.sub(rf"(?<!\w){re.escape(user)}(?!\w)", HIDDEN, text) if user and user in text else text
    if any(repeats(form[: SHOWN + TELLING], secrets) for form in (text, shown)):
        return UNSHOWN
    return visible(shown)
