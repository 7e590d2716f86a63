"""Bugs of the option `proxy_url`."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

FILE: Final = "pykafka4/proxy_url.py"
UNDERSTOOD: Final = "tests/test_proxy_url.py::test_a_url_is_understood"
REFUSED: Final = "tests/test_proxy_url.py::test_a_url_that_is_none_is_refused_with_the_way_out_and_without_the_secret"

MUTANTS: Final = (
    Mutant(
        file=FILE,
        old='password: bytes = attrs.field(default=b"", repr=False)',
        new='password: bytes = attrs.field(default=b"")',
        breaks="a configuration shows the password of a proxy",
        tests=("tests/test_proxy_url.py::test_the_secret_is_in_no_repr",),
    ),
    Mutant(
        file=FILE,
        old="    if not SCHEME.fullmatch(scheme):",
        new="    if not scheme:",
        breaks="a password in a URL that was written wrongly is shown",
        tests=(REFUSED,),
    ),
    Mutant(
        file=FILE,
        old='    if any(character in text for character in "/?#"):\n        raise _wrong("a character',
        new='    if False:\n        raise _wrong("a character',
        breaks="other programs read another password in the same URL",
        tests=(REFUSED,),
    ),
    Mutant(
        file=FILE,
        old="    if BROKEN_PERCENT.search(text):",
        new="    if False:",
        breaks="a password with a percent sign that is not encoded is taken",
        tests=(REFUSED,),
    ),
    Mutant(
        file=FILE,
        old='(unquote_to_bytes(part.encode("utf-8", "surrogatepass")) for part in (name, word))',
        new='(part.encode("utf-8", "surrogatepass") for part in (name, word))',
        breaks="percent-encoding is not decoded",
        tests=(UNDERSTOOD,),
    ),
    Mutant(
        file=FILE,
        old="unquote_to_bytes(part.encode",
        new="unquote_to_bytes(part.strip().encode",
        breaks="spaces around a password are cut off",
        tests=(UNDERSTOOD,),
    ),
    Mutant(
        file=FILE,
        old='rest.rpartition("@")',
        new='(lambda a, b, c: (a, b, c) if b else ("", "", rest))(*rest.partition("@"))',
        breaks="a password with @ ends there",
        tests=(UNDERSTOOD,),
    ),
    Mutant(
        file=FILE,
        old="    if kind is ProxyKind.SOCKS5 and max(len(username), len(password)) > LONGEST:",
        new="    if False:",
        breaks="a password that SOCKS cannot carry crashes the loop",
        tests=(REFUSED,),
    ),
    Mutant(
        file=FILE,
        old='    if ":" in host and not host.startswith("["):',
        new="    if False:",
        breaks="an address of IPv6 without brackets is cut at its last colon",
        tests=(REFUSED,),
    ),
    Mutant(
        file=FILE,
        old="0 < int(port) < 65536",
        new="int(port) < 65536",
        breaks="port 0 of a proxy is taken",
        tests=(REFUSED,),
    ),
)
