"""Which patterns are refused, and that those which are not take a bounded time."""

from __future__ import annotations

import re
import time

import pytest

from pykafka4.core.group.topics.patterns import check_pattern
from pykafka4.errors import ConfigError

HOSTILE = (
    "(a+)+b",
    "(a|a)*b",
    "(a|aa)+b",
    "(?:a*)*b",
    "(?P<n>a|a)+b",
    "(?i:a|a)+b",
    "(?!(a+)+b).*",
    "(.*)(.*)(.*)(.*)b",
    "(((a*)*)*)*b",
    "(a{1,99}){1,99}b",
    "(((((a?){200}){200}){200}){200})b",
    "a?" * 30 + "a" * 30,
    "(a|a)" * 30 + "b",
    "(a|b){30}",
    r"(a|aa)+\1b",
    "([)]|a+)+b",
    r"(\)|a+)+b",
    "([]a]+)+b",
    "(?#a comment)(a+)+b",
    "((a+)+){}",
)
USUAL = (
    "orders",
    "orders-.*",
    ".*-(eu|us)-.*",
    "[a-z]+-[0-9]+",
    "(?!test-).*",
    "(?:ab)*c",
    r"(a)\1.*",
    "(?:eu|us|asia)-(?:orders|payments)(?:-v[0-9]+)?",
    r"(?i)orders\.(.*)\.(.*)\.v[12]",
    "[(+)]*|x{2}|y{,3}|z{2,}",
    "[a-z]{1,3}" * 10,
    "(?:a|b)" * 20,
    "^[^._-]{1,20}-[a-z]{3}$",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_pattern_that_could_take_exponential_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"could take exponential time: .* more than 10,000,000 ways .* write \[ab\]\* for"):
        check_pattern(re.compile(text))


@pytest.mark.parametrize("text", USUAL)
def test_usual_patterns_are_accepted(text: str) -> None:
    check_pattern(re.compile(text))


@pytest.mark.parametrize("text", [".*a.*a.*ab", "(a|aa)(a|aa)(a|aa)a*a*b", "(?:a*a*a?){1}b", "a{0,9}a{0,9}a{0,9}b"])
def test_the_worst_of_the_accepted_patterns_take_a_fraction_of_a_second(text: str) -> None:
    pattern = re.compile(text)
    check_pattern(pattern)
    began = time.process_time()
    assert pattern.fullmatch("a" * 249) is None
    assert time.process_time() - began < 1


@pytest.mark.parametrize("pattern", [re.compile("a b", re.VERBOSE), re.compile("(?x)a"), re.compile("(?ix:a )b")])
def test_a_verbose_pattern_is_refused(pattern: re.Pattern[str]) -> None:
    with pytest.raises(ConfigError, match=r"is verbose; write it without re\.VERBOSE"):
        check_pattern(pattern)
