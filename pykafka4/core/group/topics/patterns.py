"""Refuses patterns that may take `re` too long, because there are too many ways to match them.

`re` tries the ways to match one after the other, and holds the GIL meanwhile: a long match on any thread would delay heartbeats. The
number of ways is estimated from the text of the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pykafka4.errors import ConfigError

__all__ = ["check_pattern"]

NAME_LENGTH: Final = 249  # characters of the longest topic name
REPETITION_WAYS: Final = 140  # ways of one repetition without a limit: three such repetitions share a name in 249³ / 3! ways, about 140³
MAX_WAYS: Final = 10_000_000

_TOKEN: Final = re.compile(
    r"""(?P<neutral>\(\?\#[^)]*\)|\(\?[a-zA-Z]+\)|\(\?P=\w+\))   # a comment, flags, a reference
    |(?P<begin>\((?:\?(?:<[=!]|P<\w+>|\(\w+\)|[a-zA-Z]*(?:-[a-zA-Z]+)?:|[=!>]))?)
    |(?P<end>\))
    |(?P<bar>\|)
    |(?P<repeat>[*+?]|\{(?:\d+,?|\d*,)\d*\})[?+]?
    |(?P<atom>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.)""",
    re.VERBOSE | re.DOTALL,
)
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z]*x")
_LIMITS: Final = {"*": (0, NAME_LENGTH), "+": (1, NAME_LENGTH), "?": (0, 1)}


def check_pattern(pattern: re.Pattern[str]) -> None:
    """Raise ConfigError for a verbose pattern, or one with too many ways to match."""
    text = pattern.pattern
    if pattern.flags & re.VERBOSE or _VERBOSE.search(text):
        raise ConfigError(f"pattern {text!r} is verbose; write it without re.VERBOSE")
    if _ways(_TOKEN.finditer(text)) > MAX_WAYS:
        raise ConfigError(
            f"pattern {text!r} could take exponential time: there may be more than {MAX_WAYS:,} ways to match it. Alternatives and "
            "repetitions multiply the ways, most of all in a group that is itself repeated: write [ab]* for (a|b)*, use at most three "
            "repetitions without a limit, or subscribe to a list of simpler patterns"
        )


def _ways(tokens: Iterator[re.Match[str]]) -> int:
    """Estimate the number of ways to match the alternatives up to the end of the current group; return at most MAX_WAYS + 1."""
    alternatives, ways, item = 0, 1, 1
    for token in tokens:
        if token["repeat"]:
            low, high = _LIMITS.get(token["repeat"]) or _limits(token["repeat"])
            item = item**high * min(high - low + 1, REPETITION_WAYS)
            continue
        ways, item = min(ways * item, MAX_WAYS + 1), 1
        if token["begin"]:
            item = _ways(tokens)
        elif token["bar"]:
            alternatives, ways = alternatives + ways, 1
        elif token["end"]:
            break
    return min(alternatives + ways * item, MAX_WAYS + 1)


def _limits(braces: str) -> tuple[int, int]:
    """Return the least and the most repetitions of `{2}`, `{2,}`, `{,3}` or `{2,3}`."""
    low, comma, high = braces[1:-1].partition(",")
    least = min(int(low or 0), NAME_LENGTH)
    return least, min(int(high or NAME_LENGTH), NAME_LENGTH) if comma else least
