"""Patterns. Rule: whether a topic's name matches is decided in a bounded number of steps, whatever the pattern.

Python's `re` tries alternatives one after the other. For some patterns that takes exponential time, and it holds the GIL meanwhile: on
whichever thread it runs, no heartbeat could be sent. So `re` gets only patterns for which there are few ways to try. For the others, all
alternatives are followed at once: the positions in the name that can be reached are the bits of an int, and each part of the pattern maps
one such set to the next.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Iterable
from importlib import import_module
from typing import Any, Final, TypeAlias

from pykafka4.errors import ConfigError, KafkaError

__all__ = ["MOST_STEPS", "Matcher", "matcher"]

LONGEST: Final = 249  # characters of a topic's name
FEW: Final = 500_000  # ways to try; `re` gets through them in a few milliseconds
MOST_STEPS: Final = 200_000  # for one name; a pattern that needs more has repetitions within repetitions within repetitions
ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")  # of topic names

Matcher: TypeAlias = Callable[[str], bool]  # whether the whole name matches
Step: TypeAlias = Callable[["Walk", int], int]

_parser: Any = import_module("re._parser")  # what `re` itself compiles from; there is no public form of it


def matcher(pattern: re.Pattern[str]) -> Matcher:
    """Decides whether a whole name matches. Raises ConfigError for a pattern that only `re` can match, but with too many ways to try."""
    tree = _parser.parse(pattern.pattern, pattern.flags)
    if _ways(tree) <= FEW:
        return lambda name: pattern.fullmatch(name) is not None
    try:
        step = _sequence(tree, pattern.flags)
    except _Irregular as error:
        raise ConfigError(
            f"pattern {pattern.pattern!r}: {error} cannot be combined with repetitions within repetitions; "
            "such a pattern could take exponential time"
        ) from None
    return lambda name: Walk(name, pattern.pattern).whole(step)


# ---- how many ways there are to try


def _ways(items: Iterable[Any]) -> int:
    """In how many ways `re` may try to match these parts, one after the other, to a name: an upper limit, or just more than FEW."""
    ways = 1
    for op, argument in items:
        count = WAYS.get(op.name)
        ways = min(ways * (1 if count is None else count(argument)), FEW + 1)
    return ways


def _ways_of_repeat(argument: tuple[int, int, Any]) -> int:
    low, high, body = argument
    ways: int = _ways(body) ** min(high, LONGEST)
    return ways * (min(high - low, LONGEST) + 1)


WAYS: Final[dict[str, Callable[[Any], int]]] = {
    "BRANCH": lambda argument: sum(map(_ways, argument[1])),
    "SUBPATTERN": lambda argument: _ways(argument[3]),
    "ATOMIC_GROUP": _ways,
    "ASSERT": lambda argument: 1 + _ways(argument[1]),
    "ASSERT_NOT": lambda argument: 1 + _ways(argument[1]),
    "MAX_REPEAT": _ways_of_repeat,
    "MIN_REPEAT": _ways_of_repeat,
    "POSSESSIVE_REPEAT": _ways_of_repeat,
    "GROUPREF_EXISTS": lambda argument: _ways(argument[1]) + _ways(argument[2] or ()),
}


# ---- all alternatives at once


class Walk:
    """The match of one name. Position 0, before the first character, is bit 0."""

    __slots__ = ("_pattern", "_places", "_steps", "boundaries", "everywhere", "last", "name")

    def __init__(self, name: str, pattern: str) -> None:
        self.name, self._pattern = name, pattern
        self.last = 1 << len(name)
        self.everywhere = 2 * self.last - 1
        self.boundaries = sum(1 << found.start() for found in re.finditer(r"\b", name))
        self._places: dict[frozenset[str], int] = {}
        self._steps = 0

    def whole(self, step: Step) -> bool:
        """Whether `step` leads from the beginning of the name to its end."""
        return bool(step(self, 1) & self.last)

    def places(self, allowed: frozenset[str]) -> int:
        """The positions before one of these characters."""
        found = self._places.get(allowed)
        if found is None:
            found = self._places[allowed] = sum(1 << at for at, character in enumerate(self.name) if character in allowed)
        return found

    def count(self) -> None:
        """Count a step. Raises KafkaError if there were too many."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise KafkaError(f"pattern {self._pattern!r} takes too long to compare with topic {self.name}: simplify its repetitions")


class _Irregular(Exception):
    """The pattern has a part that depends on how another part matched."""


def _sequence(items: Iterable[Any], flags: int) -> Step:
    steps = []
    for op, argument in items:
        if op.name not in BUILD:
            raise _Irregular(IRREGULAR.get(op.name, op.name))
        steps.append(BUILD[op.name](argument, flags))

    def step(walk: Walk, at: int) -> int:
        walk.count()
        for part in steps:
            if not at:
                return 0
            at = part(walk, at)
        return at

    return step


def _character(allowed: frozenset[str]) -> Step:
    return lambda walk, at: (at & walk.places(allowed)) << 1


def _with_case(characters: Collection[str], flags: int) -> frozenset[str]:
    """The characters of topic names among these, in both cases if the flags say so."""
    both = {c.swapcase() for c in characters} if flags & re.IGNORECASE else ()
    return ALPHABET.intersection((*characters, *both))


def _set(items: Any, flags: int) -> Step:
    found: set[str] = set()
    negated = False
    for op, argument in items:
        if op.name == "NEGATE":
            negated = True
        elif op.name == "LITERAL":
            found.add(chr(argument))
        elif op.name == "RANGE":
            found |= {c for c in ALPHABET if argument[0] <= ord(c) <= argument[1]}
        else:
            test = re.compile(CATEGORIES[argument.name]).match
            found |= {c for c in ALPHABET if test(c)}
    allowed = _with_case(found, flags)
    return _character(ALPHABET - allowed if negated else allowed)


def _branch(argument: Any, flags: int) -> Step:
    branches = [_sequence(branch, flags) for branch in argument[1]]

    def step(walk: Walk, at: int) -> int:
        reached = 0
        for branch in branches:
            reached |= branch(walk, at)
        return reached

    return step


def _group(argument: Any, flags: int) -> Step:
    _, added, removed, body = argument
    return _sequence(body, (flags | added) & ~removed)


def _repeat(argument: Any, flags: int) -> Step:
    low, high, items = argument
    body = _sequence(items, flags)

    def step(walk: Walk, at: int) -> int:
        most = len(walk.name) + 1  # repetitions beyond that match nothing, and repeating nothing once more changes nothing
        for _ in range(min(low, most)):
            at = body(walk, at)
        reached = new = at
        for _ in range(min(high - low, most)):
            new = body(walk, new) & ~reached
            if not new:
                break
            reached |= new
        return reached

    return step


def _assert(argument: Any, flags: int) -> Step:
    direction, items = argument
    body = _sequence(items, flags)
    if direction < 0:  # of a fixed width, so every way to a position behind it is one
        return lambda walk, at: at & body(walk, walk.everywhere)

    def step(walk: Walk, at: int) -> int:
        kept = 0
        for position in range(len(walk.name) + 1):
            if at >> position & 1 and body(walk, 1 << position):
                kept |= 1 << position
        return kept

    return step


def _assert_not(argument: Any, flags: int) -> Step:
    positive = _assert(argument, flags)
    return lambda walk, at: at & ~positive(walk, at)


def _place(argument: Any, flags: int) -> Step:
    return PLACES[argument.name]


CATEGORIES: Final = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
PLACES: Final[dict[str, Step]] = {
    "AT_BEGINNING": lambda walk, at: at & 1,
    "AT_BEGINNING_STRING": lambda walk, at: at & 1,
    "AT_END": lambda walk, at: at & walk.last,
    "AT_END_STRING": lambda walk, at: at & walk.last,
    "AT_BOUNDARY": lambda walk, at: at & walk.boundaries,
    "AT_NON_BOUNDARY": lambda walk, at: at & ~walk.boundaries,
}
BUILD: Final[dict[str, Callable[[Any, int], Step]]] = {
    "LITERAL": lambda code, flags: _character(_with_case(chr(code), flags)),
    "NOT_LITERAL": lambda code, flags: _character(ALPHABET - _with_case(chr(code), flags)),
    "ANY": lambda _, flags: _character(ALPHABET),
    "IN": _set,
    "BRANCH": _branch,
    "SUBPATTERN": _group,
    "MAX_REPEAT": _repeat,
    "MIN_REPEAT": _repeat,
    "ASSERT": _assert,
    "ASSERT_NOT": _assert_not,
    "AT": _place,
    "FAILURE": lambda _, flags: lambda walk, at: 0,
}
IRREGULAR: Final = {
    "GROUPREF": "a reference to a group",
    "GROUPREF_EXISTS": "a condition on a group",
    "GROUPREF_IGNORE": "a reference to a group",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repetition",
}
