"""Bugs of `pykafka4.core.producer.late`."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/producer/late.py",
        old="            share.taken += batch.count / len(share.partitions)\n",
        new="            share.taken += batch.count\n",
        breaks="brokers get as many records as each other, however many partitions they lead",
        tests=("tests/core/producer/test_late.py::test_brokers_get_records_in_proportion_to_the_partitions_that_they_lead",),
    ),
    Mutant(
        file="pykafka4/core/producer/late.py",
        old="            if node in served:",
        new="            if False:",
        breaks="a request has several batches without key of one topic, and the shares of brokers are lost",
        tests=("tests/core/producer/test_late.py::test_a_request_gets_one_such_batch_of_each_topic",),
    ),
    Mutant(
        file="pykafka4/core/producer/late.py",
        old="        share.excused = share.excused or now >= until\n",
        new="        share.excused = False\n",
        breaks="records wait for a broker that takes nothing",
        tests=("tests/core/producer/test_late.py::test_a_broker_that_is_not_connected_is_waited_for_briefly",),
    ),
    Mutant(
        file="pykafka4/core/producer/late.py",
        old="        if share.excused:\n            share.taken = max(",
        new="        if False:\n            share.taken = max(",
        breaks="a broker that was slow is flooded when it is back",
        tests=("tests/core/producer/test_late.py::test_a_broker_that_was_slow_does_not_catch_up",),
    ),
    Mutant(
        file="pykafka4/core/producer/late.py",
        old="        as_of = self._recovery.changes, self._recovery.losses\n",
        new="        as_of = 0, 0\n",
        breaks="a partition that went offline still gets records, or one that is back gets none",
        tests=("tests/core/producer/test_late.py::test_a_partition_that_is_offline_gets_nothing_and_nothing_waits_for_it",),
    ),
    Mutant(
        file="pykafka4/core/producer/late.py",
        old="            self.wake_at = min(self.wake_at, until)\n",
        new="            pass\n",
        breaks="nobody looks again when the wait for a slow broker is over",
        tests=("tests/core/producer/test_late.py::test_a_broker_ahead_of_its_share_waits_for_the_other_one_but_not_for_long",),
    ),
    Mutant(
        file="pykafka4/core/producer/late.py",
        old=" and oldest is not None and oldest.created + HUNGER <= now\n",
        new=" and False\n",
        breaks="records without a key starve while others keep every partition busy",
        tests=("tests/core/producer/test_late.py::test_records_with_keys_do_not_keep_the_others_waiting_for_ever",),
    ),
    Mutant(
        file="pykafka4/core/producer/late.py",
        old="return share is not None and share.looked >= len(share.partitions) and oldest",
        new="return share is not None and oldest",
        breaks="a batch that has waited for long joins one that is stuck, beside idle partitions",
        tests=(
            "tests/core/producer/test_late.py::test_a_batch_that_has_waited_for_long_prefers_an_idle_partition_to_one_with_something_to_send",
        ),
    ),
    Mutant(
        file="pykafka4/core/producer/late.py",
        old="            self.wake_at = min(self.wake_at, now if share.looked < len(share.partitions) else now + PACE)\n",
        new="            share.cursor = 0\n",
        breaks="stuck partitions hide those behind them",
        tests=("tests/core/producer/test_late.py::test_stuck_neighbours_do_not_hide_the_partitions_behind_them",),
    ),
)
