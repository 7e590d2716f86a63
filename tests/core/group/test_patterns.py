"""Patterns: the same verdicts as `re`, in a bounded number of steps."""

from __future__ import annotations

import re
from random import Random

import pytest

from pykafka4.core.group import patterns
from pykafka4.core.group.patterns import matcher
from pykafka4.errors import ConfigError, KafkaError

CHARACTERS = ("a", "b", "A", ".", "[ab]", "[^a]", r"\d", r"\W", "(?i:a)", r"[^\w]", "[a-c-]", r"[\d.]", "[^-.]")
PLACES = ("^", "$", r"\b", r"\B", r"\Z", "(?=a)", "(?!a)", "(?<=a)", "(?<!b)", "(?!)")
REPEATS = ("a?", "b*", "a+?", "(a{1,3})", "(?:ab){2}", "(?:a|b|)*", "(?:a*b)*", "(?:a|b)", "(a|ab)")
PARTS = (*CHARACTERS, *PLACES, *REPEATS)
HOSTILE = ("(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)(.*)b", "(((a*)*)*)*b", "((a{1,99}){1,99}){1,99}b", "(?!(a+)+b)(a|a?)+b")


def test_all_alternatives_at_once_give_the_verdict_of_re(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "FEW", 0)
    random = Random(7)
    compared = 0
    for _ in range(3000):
        text = "".join(random.choice(PARTS) for _ in range(random.randint(1, 5)))
        if random.random() < 0.3:
            text = f"(?:{text}){random.choice(['*', '+', '?', '{2}', '{1,3}', '{0,2}?'])}"
        pattern = re.compile(text, random.choice((0, re.IGNORECASE)))
        matches = matcher(pattern)
        for _ in range(5):
            name = "".join(random.choice("abAB1-._") for _ in range(random.randint(1, 7)))
            assert matches(name) == (pattern.fullmatch(name) is not None), (text, pattern.flags, name)
            compared += matches(name)
    assert compared > 200


@pytest.mark.parametrize("text", HOSTILE)
def test_a_pattern_that_takes_re_exponential_time_takes_few_steps(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MOST_STEPS", 5000)
    matches = matcher(re.compile(text))
    assert not matches("a" * 249)
    assert matches("a" * 248 + "b") == (text != HOSTILE[-1])


@pytest.mark.parametrize("text", ["orders", "orders-.*", ".*-(eu|us)-.*", "[a-z]+-[0-9]+", "(?!test-).*", "(?:ab)*c", r"(a)\1.*"])
def test_usual_patterns_are_left_to_re(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "Walk", None)
    matcher(re.compile(text))("orders-eu-1")


def test_the_whole_name_has_to_match() -> None:
    assert matcher(re.compile("a|b"))("b")
    assert not matcher(re.compile("a|b"))("ab")
    assert not matcher(re.compile("(a|b)+c"))("abcd")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (r"(a|aa)+\1b", "a reference to a group"),
        (r"(a|aa)+(?>a)b", "an atomic group"),
        (r"(a|aa)+a++b", "a possessive repetition"),
        (r"(a|aa)+(?(1)b|c)", "a condition on a group"),
    ],
)
def test_what_only_re_can_match_is_refused_if_it_could_take_exponential_time(text: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        matcher(re.compile(text))


def test_a_pattern_that_takes_too_many_steps_is_named() -> None:
    matches = matcher(re.compile("(((((a?){200}){200}){200}){200})b"))
    with pytest.raises(KafkaError, match=r"takes too long to compare with topic a{249}: simplify"):
        matches("a" * 249)
