"""Places. Rule: a place is behind finished records only; how many of a loop's records are not finished, the caller says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pykafka4.core.subscription import Claim
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import RecordIterator

__all__ = ["Place", "later", "within"]

Place: TypeAlias = tuple[int, int]  # offset of the next record, leader epoch of the record before it


def within(iterator: RecordIterator, given: int, handed: Mapping[Claim, Place], held: int) -> dict[TopicPartition, Place]:
    """The place of each partition of `handed`, if `given` records were returned and the last `held` of them are not finished."""
    places = {claim.tp: place for claim, place in handed.items() if claim.live}
    for record in reversed(iterator.records[max(0, given - held) :]):
        tp = TopicPartition(record.topic, record.partition)
        if tp in places:
            places[tp] = (record.offset, record.leader_epoch)
    return places


def later(places: dict[TopicPartition, Place], others: Mapping[TopicPartition, Place]) -> dict[TopicPartition, Place]:
    """Advance `places` to those of `others` that are later."""
    for tp, place in others.items():
        if tp not in places or places[tp][0] < place[0]:
            places[tp] = place
    return places
