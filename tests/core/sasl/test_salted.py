"""The cache of SCRAM's keys."""

from __future__ import annotations

from pykafka4.core.sasl.salted import MOST_KEYS, Salted


def test_each_algorithm_salt_and_number_of_iterations_has_its_keys() -> None:
    salted = Salted()
    kinds = [("sha256", b"a", 1), ("sha512", b"a", 1), ("sha256", b"b", 1), ("sha256", b"a", 2)]
    keys = [salted.derive(algorithm, b"password", salt, iterations) for algorithm, salt, iterations in kinds]
    assert len({key.client for key in keys} | {key.server for key in keys}) == 8
    assert [salted.find(*kind) for kind in kinds] == keys
    assert salted.find("sha256", b"a", 3) is None


def test_keys_are_derived_once() -> None:
    salted = Salted()
    assert salted.derive("sha256", b"password", b"salt", 1) is salted.derive("sha256", b"password", b"salt", 1)


def test_a_peer_that_invents_salts_does_not_fill_the_memory() -> None:
    salted = Salted()
    for number in range(3 * MOST_KEYS):
        salted.derive("sha256", b"password", b"%d" % number, 1)
    assert repr(salted) == f"<Salted: {MOST_KEYS} keys>"
    assert salted.find("sha256", b"%d" % (2 * MOST_KEYS), 1) is not None
    assert salted.find("sha256", b"%d" % (2 * MOST_KEYS - 1), 1) is None
