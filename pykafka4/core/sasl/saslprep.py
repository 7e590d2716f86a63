"""Prepares a text by SASLprep (RFC 4013), only for error messages: no mechanism applies SASLprep, because Kafka does not.

RFC 5802 prescribes SASLprep for user names and passwords. Kafka (`ScramFormatter.normalize`) and Redpanda use them as UTF-8, both to store
a credential and to check it: these brokers would refuse a client that turns the password "\u2168" (one character, the Roman numeral nine)
into "IX". A server that follows the RFC refuses the unprepared form. So the error of a client that was refused by SCRAM mentions SASLprep
if SASLprep changes or prohibits the password, but never shows the password.
"""

from __future__ import annotations

import stringprep
from typing import Final
from unicodedata import ucd_3_2_0

__all__ = ["Prohibited", "difference", "saslprep"]

PROHIBITED: Final = (  # RFC 4013, sections 2.3 and 2.5
    (stringprep.in_table_c12, "a non-ASCII space"),
    (stringprep.in_table_c21_c22, "a control character"),
    (stringprep.in_table_c3, "a private-use character"),
    (stringprep.in_table_c4, "a non-character"),
    (stringprep.in_table_c5, "a surrogate"),
    (stringprep.in_table_c6, "a character that is inappropriate for plain text"),
    (stringprep.in_table_c7, "a character that is inappropriate for canonical representation"),
    (stringprep.in_table_c8, "a character that changes the display"),
    (stringprep.in_table_c9, "a tagging character"),
    (stringprep.in_table_a1, "a character that Unicode 3.2 does not have"),
)


class Prohibited(ValueError):
    """Raised if SASLprep prohibits a text. The message names the kind of prohibited character, or another reason."""


def difference(text: str) -> str:
    """The effect of SASLprep on `text`, as the end of a sentence about the text; empty if there is none."""
    try:
        return "" if saslprep(text) == text else "has characters that SASLprep changes: a server that applies it needs the prepared form"
    except Prohibited as error:
        return f"has {error}, which SASLprep prohibits: choose another password for a server that applies it"


def saslprep(text: str) -> str:
    """The prepared form of `text`. Raises Prohibited if SASLprep prohibits `text`."""
    if text.isascii() and text.isprintable():
        return text
    spaced = ("" if stringprep.in_table_b1(c) else " " if stringprep.in_table_c12(c) else c for c in text)
    result = ucd_3_2_0.normalize("NFKC", "".join(spaced))
    if not result and text:
        raise Prohibited("only characters that are removed")
    for character in result:
        for prohibits, kind in PROHIBITED:
            if prohibits(character):
                raise Prohibited(kind)
    if any(map(stringprep.in_table_d1, result)):  # a character that is written from right to left: RFC 3454, section 6
        if any(map(stringprep.in_table_d2, result)):
            raise Prohibited("two directions of writing")
        if not (stringprep.in_table_d1(result[0]) and stringprep.in_table_d1(result[-1])):
            raise Prohibited("right-to-left text with a first or last character that is not right-to-left")
    return result
