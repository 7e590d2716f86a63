"""Templates and other forms of records."""

from __future__ import annotations

import pytest

pytest.importorskip("click")

import click

from pykafka4.cli.records.dump import dump_form
from pykafka4.cli.records.forms import form_of
from pykafka4.cli.records.template import literal, template_form
from pykafka4.wire.records.hot import Record

FULL = Record("t", 3, 7, 1_700_000_000_123, "CREATE_TIME", b"k", b"v\xff", (("a", b"1"), ("b", None), ("c", b"")))
BARE = Record("t", 0, 8, -1, "CREATE_TIME", None, None, ())


@pytest.mark.parametrize(
    ("template", "full", "bare"),
    [
        (r"%s\n", b"v\xff\n", b"\n"),
        ("%k", b"k", b""),
        ("%t|%p|%o|%T|%%", b"t|3|7|1700000000123|%", b"t|0|8|-1|%"),
        ("%K,%S", b"1,2", b"-1,-1"),
        ("%R%s", b"\0\0\0\2v\xff", b"\xff\xff\xff\xff"),
        ("%h;", b"a=1,b=NULL,c=;", b";"),
        (r"\x41\t\\%s\x42", b"A\t\\v\xffB", b"A\t\\B"),
        ("ü", b"\xc3\xbc", b"\xc3\xbc"),
        ("", b"", b""),
    ],
)
def test_a_template_has_the_tokens_of_kcat(template: str, full: bytes, bare: bytes) -> None:
    form = template_form(template, b"")
    assert (form([FULL]), form([BARE]), form([FULL, BARE]), form([])) == (full, bare, full + bare, b"")


@pytest.mark.parametrize("template", ["%x", "%", "\\q", "a\\", r"\x4"])
def test_an_unknown_token_is_wrong_usage(template: str) -> None:
    with pytest.raises(click.BadParameter, match="is none of %t %p"):
        template_form(template, b"")


def test_nulls_have_the_text_that_was_asked_for() -> None:
    assert template_form("%k=%s;", b"NULL")([FULL, BARE]) == b"k=v\xff;NULL=NULL;"


def test_lines_have_keys_before_a_separator() -> None:
    assert form_of({}, None, r"%\t", False)([FULL, BARE]) == b"k%\tv\xff\n%\t\n"
    assert form_of({}, None, None, False)([FULL]) == b"v\xff\n"
    assert form_of({"raw": True}, None, None, False)([FULL, BARE, FULL]) == b"v\xffv\xff"


def test_two_forms_are_wrong_usage() -> None:
    with pytest.raises(click.UsageError, match="--json and --format are different forms"):
        form_of({"json": True, "hex": False}, "%s", None, False)


def test_a_dump_has_digits_and_letters() -> None:
    assert dump_form([FULL, BARE]).decode().splitlines() == [
        "t-3 offset 7, 2023-11-14T22:13:20.123+00:00",
        "  key: 1 bytes",
        "    00000000  6b                                               k",
        "  header a: 1 bytes",
        "    00000000  31                                               1",
        "  header b: null",
        "  header c: 0 bytes",
        "  value: 2 bytes",
        "    00000000  76 ff                                            v.",
        "",
        "t-0 offset 8, 1969-12-31T23:59:59.999+00:00",
        "  key: null",
        "  value: null",
        "",
    ]


def test_a_literal_text_has_escapes_and_is_not_empty() -> None:
    assert literal(r"%\t\x00", "--delimiter") == b"%\t\0"
    for wrong in ("", "\\"):
        with pytest.raises(click.BadParameter, match="must be a text"):
            literal(wrong, "--delimiter")
