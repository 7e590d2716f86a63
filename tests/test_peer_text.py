"""Words: remote texts are short, printable, and repeat no secret."""

from __future__ import annotations

import pytest

from pykafka4.errors.peer_text import HIDDEN, UNSHOWN, filtered, visible


def test_a_remote_text_is_short_and_printable() -> None:
    assert visible("as it is, \xe9") == "as it is, \xe9"
    assert visible("a\x1b[31m\r\nb\u202e") == r"a\x1b[31m\r\nb\u202e"
    assert visible("x" * 200) == "x" * 200
    assert visible("x" * 201) == f"{'x' * 200}… (201 characters)"
    assert len(visible("\0" * 32_000)) < 1_000


@pytest.mark.parametrize(
    ("words", "secret"),
    [
        ("invalid token eyJhbGciOiJSUzI1NiJ9.e30", "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl"),  # its beginning
        ("…J9.e30.c2lnbmF0dXJl", "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl"),  # its end
        ("no hunter2 here", "hunter2"),
        ("p\xe4ssword", "p\xe4ssword"),
        ("x" * 195 + "hunter2", "hunter2"),  # where it is cut
        ("x" * 192 + "eyJhbGciOiJSUzI1NiJ9", "eyJhbGciOiJSUzI1NiJ9"),
        ("twelve chars", "twelve chars"),
    ],
)
def test_a_remote_text_is_withheld_if_it_repeats_a_part_of_a_secret(words: str, secret: str) -> None:
    assert filtered(words, ["", "another", secret]) == UNSHOWN


def test_a_remote_text_may_be_like_a_secret_in_a_few_characters() -> None:
    assert filtered("invalid_token", ["invalid_tree_and_more"]) == "invalid_token"


def test_the_user_name_is_hidden_and_the_rest_of_the_text_stays() -> None:
    said = filtered("Authentication failed for user alice: malice", ["secret"], "alice")
    assert said == f"Authentication failed for user {HIDDEN}: malice"


def test_a_long_user_name_that_is_hidden_brings_no_secret_before_the_cut() -> None:
    user = "a" * 50
    assert "hunter2" not in filtered(f"{user} " * 4 + "and the password is hunter2", ["hunter2"], user)


def test_a_user_name_across_the_cut_is_hidden() -> None:
    user = "service-account"
    said = filtered("x" * 195 + f" {user} is locked", ["secret"], user)
    assert "serv" not in said


def test_a_secret_that_contains_the_user_name_is_not_shown() -> None:
    assert filtered("wrong password: pw alice 12", ["pw alice 12"], "alice") == UNSHOWN
