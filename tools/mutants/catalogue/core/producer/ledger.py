"""Bugs of `pykafka4.core.producer.ledger` and `pykafka4.core.producer.standing`."""

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
        old="        if len(self._drops) % BACKLOG == 0:",
        new="        if False:",
        breaks="dropped records pile up until the loop has something else to do",
        tests=("tests/core/producer/test_ledger.py::test_records_are_dropped_on_any_thread_and_the_loop_is_woken_to_count_them",),
    ),
    Mutant(
        file="pykafka4/core/producer/ledger.py",
        old="    return RecordCounts(acked + queued + in_flight + lost,",
        new="    return RecordCounts(acked + queued + lost,",
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
        old='        row["oldest_age"] = max(age, row["oldest_age"] or 0.0)',
        new='        row["oldest_age"] = age',
        breaks="status shows the age of the newest batch",
        tests=("tests/core/producer/test_standing.py::test_records_in_flight_and_queued_are_counted_with_the_age_of_the_oldest",),
    ),
)
