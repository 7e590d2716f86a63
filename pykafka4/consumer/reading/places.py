"""Computes offsets within the list that a `for` loop iterates over. Rule: an offset lies behind finished records only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka4.core.subscription import Claim, Place
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import RecordIterator

__all__ = ["first_left", "later", "within", "without"]


def within(iterator: RecordIterator, given: int, handed: Mapping[Claim, Place], held: int) -> dict[TopicPartition, Place]:
    """The place of each partition of `handed`, if `given` records were returned and the last `held` of them are not finished."""
    places = {claim.tp: place for claim, place in handed.items() if claim.live}
    for record in reversed(iterator.records[max(0, given - held) :]):
        tp = TopicPartition(record.topic, record.partition)
        if tp in places:
            places[tp] = (record.offset, record.leader_epoch)
    return places


def without(places: dict[TopicPartition, Place], tps: Iterable[TopicPartition]) -> dict[TopicPartition, Place]:
    """Remove the partitions `tps` from `places`."""
    for tp in tps:
        places.pop(tp, None)
    return places


def later(places: dict[TopicPartition, Place], others: Mapping[TopicPartition, Place]) -> dict[TopicPartition, Place]:
    """Advance each entry of `places` to the entry of `others`, if that is later."""
    for tp, place in others.items():
        if tp not in places or places[tp][0] < place[0]:
            places[tp] = place
    return places


def first_left(iterator: RecordIterator, claims: Mapping[TopicPartition, Claim]) -> dict[Claim, int]:
    """The claims with records left in the list of a loop, and the offset of the first of these."""
    first: dict[Claim, int] = {}
    for record in reversed(iterator.records[iterator.given :]):
        claim = claims.get(TopicPartition(record.topic, record.partition))
        if claim is not None:
            first[claim] = record.offset
    return first
