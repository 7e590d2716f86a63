"""SASLprep (RFC 4013). Rule: no mechanism applies it, because Kafka does not; errors say what is prohibited, never the text.

RFC 5802 prepares user names and passwords. Kafka (`ScramFormatter.normalize`) and Redpanda use them as UTF-8, both to store a credential
and to check it: a client that turns the password "\u2168" (one character, the Roman number nine) into "IX" would be refused. `prepared` is
for a server that follows the RFC to the letter.

Based on `stringprep` of the standard library, which has all the tables. PyPI has no package for this alone: `scramp` has a SASLprep inside
of a whole SCRAM client, and requires `asn1crypto` (1.2 MB).
"""

from __future__ import annotations

import stringprep
from typing import Final
from unicodedata import ucd_3_2_0

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.errors import ConfigError

__all__ = ["prepared", "saslprep"]

PROHIBITED: Final = (  # RFC 4013, section 2.3
    (stringprep.in_table_c12, "a non-ASCII space"),
    (stringprep.in_table_c21_c22, "a control character"),
    (stringprep.in_table_c3, "a private-use character"),
    (stringprep.in_table_c4, "a non-character"),
    (stringprep.in_table_c5, "a surrogate"),
    (stringprep.in_table_c6, "a character that plain text does not have"),
    (stringprep.in_table_c7, "a character that canonical text does not have"),
    (stringprep.in_table_c8, "a character that changes the display"),
    (stringprep.in_table_c9, "a tagging character"),
)

UNASSIGNED: Final = (stringprep.in_table_a1, "a character that Unicode 3.2 does not have")  # section 2.5: only in texts that are stored


def prepared(credentials: SaslCredentials) -> SaslCredentials:
    """These credentials as RFC 5802 wants them; ConfigError if it prohibits them."""
    username = saslprep(credentials.username, "the SASL user name", stored=False)  # RFC 5802, section 5.1
    return SaslCredentials(username, saslprep(credentials.password, "the SASL password"))


def saslprep(text: str, what: str = "the text", stored: bool = True) -> str:
    """`text`, prepared. ConfigError, which calls it `what`, if something in it is prohibited or nothing remains of it."""
    if text.isascii() and text.isprintable():
        return text
    spaced = ("" if stringprep.in_table_b1(c) else " " if stringprep.in_table_c12(c) else c for c in text)
    result = ucd_3_2_0.normalize("NFKC", "".join(spaced))
    if not result and text:
        raise ConfigError(f"{what} has only characters that SASLprep removes; choose another")
    for character in result:
        for prohibits, kind in (*PROHIBITED, UNASSIGNED) if stored else PROHIBITED:
            if prohibits(character):
                raise ConfigError(f"{what} has {kind}, which SASLprep prohibits; choose one without it")
    if any(map(stringprep.in_table_d1, result)):  # a character that is written from right to left: RFC 3454, section 6
        if any(map(stringprep.in_table_d2, result)):
            raise ConfigError(f"{what} mixes directions of writing, which SASLprep prohibits; choose one in one direction")
        if not (stringprep.in_table_d1(result[0]) and stringprep.in_table_d1(result[-1])):
            raise ConfigError(f"{what} begins or ends in another direction than it is written in, which SASLprep prohibits; choose another")
    return result
