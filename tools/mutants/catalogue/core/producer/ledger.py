"""Bugs of `pykafka4.core.producer.ledger`, `pykafka4.core.producer.losses` and `pykafka4.core.producer.standing`."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/producer/ledger.py",
        old="            kept = kept.plus(self._tallies.pop(TopicPartition(topic, partition)))\n",
        new="            self._tallies.pop(TopicPartition(topic, partition))\n",
        breaks="the counts of a topic that is not used any more are lost",
        tests=("tests/core/producer/test_ledger.py::test_of_a_topic_that_is_not_used_any_more_only_the_sums_remain",),
    ),
    Mutant(
        file="pykafka4/core/producer/ledger.py",
        old="            self._losses.pop((oldest, None), None)\n",
        new="            pass\n",
        breaks="losses of topics that come and go fill memory",
        tests=("tests/core/producer/test_ledger.py::test_topics_that_come_and_go_do_not_fill_memory",),
    ),
    Mutant(
        file="pykafka4/core/producer/ledger.py",
        old="        if self._drops is snapshot.drops and sums",
        new="        if sums",
        breaks="two threads that ask at once count a dropped record twice, or not at all",
        tests=("tests/core/producer/test_ledger.py::test_drops_are_added_up_once_and_not_on_the_loop",),
    ),
    Mutant(
        file="pykafka4/core/producer/ledger.py",
        old="        if acc.accepted == accepted:\n",
        new="        if True:\n",
        breaks="a record that is sent while the batches are counted counts as queued and not as accepted",
        tests=("tests/core/producer/test_scale.py::test_a_record_that_is_sent_during_the_census_is_in_it_or_not_at_all",),
    ),
    Mutant(
        file="pykafka4/core/producer/losses.py",
        old="    for topic in list(others)[:-RETIRED]:\n        del others[topic]\n",
        new="",
        breaks="drops of topics that come and go fill memory",
        tests=("tests/core/producer/test_ledger.py::test_drops_of_topics_that_come_and_go_do_not_fill_memory",),
    ),
    Mutant(
        file="pykafka4/core/producer/ledger.py",
        old="    counts = acked + queued + in_flight + lost,",
        new="    counts = acked + queued + lost,",
        breaks="records in flight are missing in what a partition has accepted",
        tests=("tests/core/producer/test_ledger.py::test_every_record_is_in_exactly_one_place",),
    ),
    Mutant(
        file="pykafka4/core/producer/standing.py",
        old='return "no leader", queue.leaderless_since',
        new='return "no leader", None',
        breaks="status says that a partition has no leader, but not since when",
        tests=("tests/core/producer/test_standing.py::test_offline_because_there_is_no_leader",),
    ),
    Mutant(
        file="pykafka4/core/producer/standing.py",
        old="age > oldest",
        new="age < oldest",
        breaks="status shows the age of the newest batch",
        tests=("tests/core/producer/test_standing.py::test_records_in_flight_and_queued_are_counted_with_the_age_of_the_oldest",),
    ),
    Mutant(
        file="pykafka4/core/producer/standing.py",
        old="        if quiet_since is not None and quiet_since + SILENCE <= now:",
        new="        if False:",
        breaks="a partition whose leader is frozen is online",
        tests=("tests/core/producer/test_standing.py::test_offline_because_the_leader_does_not_respond",),
    ),
    Mutant(
        file="pykafka4/core/producer/standing.py",
        old="        if queue.strays and queue.waiting:",
        new="        if False:",
        breaks="a partition that waits for requests with purged records is online",
        tests=("tests/core/producer/test_standing.py::test_offline_because_requests_with_purged_records_have_not_ended",),
    ),
)
