"""Bugs of messages, codecs and the plain-Python core."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/wire/records/_plain_topic.py",
        old="            limit = now + soon\n",
        new="            limit += 0\n",
        breaks="plain core: each partition costs the loop a turn per linger",
        tests=("tests/wire/records/accumulator/test_hot_take.py::test_a_batch_that_is_due_soon_is_taken_with_one_that_is_due",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_topic.py",
        old="        elif now >= self.expected:\n",
        new="        elif now > self.expected + 1:\n",
        breaks="plain core: the loop spins when no batch comes as expected",
        tests=("tests/wire/records/accumulator/test_hot_take.py::test_when_no_batch_comes_as_expected_the_next_one_wakes_the_loop",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_room.py",
        old="        return full is None or (t.name, r.decided) in full\n",
        new="        return full is None\n",
        breaks="plain core: a record takes the room that threads with the same full partition wait for",
        tests=(
            "tests/wire/records/accumulator/test_hot_memory.py::test_only_threads_for_the_same_full_partition_queue_behind_its_waiters",
        ),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="            if self._partition_fits(t, t.sticky, need):\n",
        new="            if self._partition_fits(t, t.sticky, min(need, 2048)):\n",
        breaks="plain core: a record without key spins beside a partition that has room for it, past max_block_ms",
        tests=("tests/wire/records/accumulator/test_hot_memory.py::test_a_record_without_key_goes_to_the_partition_that_has_room_for_it",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_room.py",
        old="        return full is None or (t.name,",
        new="        return True or (t.name,",
        breaks="plain core: threads that wait for room in a full partition slow down those that write to others",
        tests=(
            "tests/wire/records/accumulator/test_hot_memory.py::test_only_threads_for_the_same_full_partition_queue_behind_its_waiters",
        ),
    ),
    Mutant(
        file="pykafka4/wire/records/hot.py",
        old='    if name == "compiled" and _without_gil():',
        new='    if name == "compiled" and not _without_gil:',
        breaks="the compiled core runs without the GIL",
        tests=("tests/wire/records/test_hot.py::test_without_the_gil_the_plain_implementation_runs",),
    ),
    Mutant(
        file="pykafka4/wire/records/checksum.py",
        old='    if google.implementation != "c":\n        return None\n',
        new="",
        breaks="checksums are computed by google-crc32c in pure Python",
        tests=("tests/wire/records/test_checksum.py::test_a_google_crc32c_in_pure_python_is_not_taken",),
    ),
    Mutant(
        file="pykafka4/wire/records/checksum.py",
        old='sys.modules.get("crcmod._crcfunext") is None',
        new='"crcmod._crcfunext" not in sys.modules and False',
        breaks="nothing is logged when checksums are computed in pure Python",
        tests=("tests/wire/records/test_checksum.py::test_checksums_in_pure_python_are_logged_once",),
    ),
    Mutant(
        file="pykafka4/wire/records/checksum.py",
        old='    made: Extend = importlib.import_module("crcmod.predefined")',
        new='    made: Extend = importlib.import_module("google_crc32c") and importlib.import_module("crcmod.predefined")',
        breaks="google-crc32c is required",
        tests=("tests/wire/records/test_checksum.py::test_crcmod_is_enough",),
    ),
    Mutant(
        file="pykafka4/wire/records/compression.py",
        old="        if size > self.max_size - self._size:",
        new="        if False:",
        breaks="decompression has no bound",
        tests=("tests/wire/records/test_compression.py::test_one_byte_over_the_bound_is_too_large",),
    ),
    Mutant(
        file="pykafka4/wire/records/compression.py",
        old="        return importlib.import_module(module)\n    except ImportError as error:",
        new="        return importlib.import_module(module)\n    except SyntaxError as error:",
        breaks="a codec whose library is missing is not named",
        tests=("tests/wire/records/test_hot.py::test_a_codec_whose_library_is_missing_is_named_and_leaves_the_others",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_choice.py",
        old="    Hash.MURMUR2: lambda key: murmur2(key) & 0x7FFFFFFF,",
        new="    Hash.MURMUR2: lambda key: murmur2(key) & 0x3FFFFFFF,",
        breaks="the plain core sends keys to other partitions than Java",
        tests=("tests/wire/records/accumulator/test_hot_partition.py::test_keys_choose_partitions_as_in_java",),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="        if not taken:\n",
        new="        if True:\n",
        breaks="the plain core sends a batch that lingered twice",
        tests=("tests/wire/records/accumulator/test_hot_take.py::test_a_batch_that_is_taken_as_it_is_sealed_is_not_returned_again",),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="(-1 if r.key is None else len(r.key)) >= plan.least_key",
        new="(-1 if not r.key else len(r.key)) >= plan.least_key",
        breaks="the plain core treats an empty key as no key when it chooses the partition",
        tests=("tests/wire/records/accumulator/test_hot_partition.py::test_an_empty_key_is_a_key",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_batch.py",
        old="            last_offset_delta=self.count - 1,\n",
        new="            last_offset_delta=self.count,\n",
        breaks="the plain core's last offset of a batch is one too far",
        tests=("tests/wire/records/accumulator/test_hot_batch.py::test_a_batch_is_what_kafka_expects",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_choice.py",
        old="        at -= most + unit - some\n",
        new="        at -= most + unit\n",
        breaks="the plain core gives a slow partition as much as the others",
        tests=(
            "tests/wire/records/accumulator/test_hot_partitioners.py::test_a_partition_that_is_not_acknowledged_gets_less_and_its_share_back",
        ),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_choice.py",
        old="    return 2**32 - h if h >> 31 else h",
        new="    return h",
        breaks="the plain core sends keys to other partitions than librdkafka's fnv1a",
        tests=("tests/wire/records/accumulator/test_hot_partitioners.py::test_keys_get_the_partitions_of_java_and_librdkafka",),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="        if self._plan.function is not None and r.partition < 0:\n",
        new="        if False:\n",
        breaks="the plain core calls the application's partitioner on the loop's thread, for parked records",
        tests=("tests/wire/records/accumulator/test_hot_partitioners.py::test_records_for_a_function_wait_behind_parked_ones",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_drop.py",
        old="                found.records = 0\n",
        new="                pass\n",
        breaks="plain core: dropped records are counted again and again",
        tests=("tests/wire/records/accumulator/test_hot_drop.py::test_drops_are_counted_by_partition_with_their_timestamps",),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old='            if not hasattr(delivery, "_place") or delivery._place[0]._dropped:\n                place.give_back()',
        new="            pass",
        breaks="plain core: a record that is not sent uses up a place of its rate limit",
        tests=("tests/wire/records/accumulator/test_hot_policy.py::test_a_record_that_gets_no_further_gives_its_place_back",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_room.py",
        old="        if r.turning:\n            r.partition = UNDECIDED  #",
        new="        if False:\n            r.partition = UNDECIDED  #",
        breaks="plain core: round robin waits for a partition that is stuck, beside others with room",
        tests=("tests/wire/records/accumulator/test_hot_partitioners.py::test_round_robin_waits_for_any_partition_and_chooses_again",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_room.py",
        old="        if self._reserved + size > self._buffer_memory and not self._flushing:\n",
        new="        if not self._flushing:\n",
        breaks="plain core: drops of one full partition make the batches of all others small",
        tests=("tests/wire/records/accumulator/test_hot_drop.py::test_a_full_partition_drops_while_others_take_records",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_batch.py",
        old='self._payload += max(len(r.key or b"") + len(r.value or b""), 1)',
        new='self._payload += len(r.key or b"") + len(r.value or b"")',
        breaks="plain core: records without bytes never complete a batch",
        tests=("tests/wire/records/accumulator/test_hot_policy.py::test_a_record_without_bytes_counts_as_one",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_batch.py",
        old="and len(data) <= policy.compression_max_ratio * before",
        new="",
        breaks="plain core: compression_max_ratio has no effect",
        tests=("tests/wire/records/accumulator/test_hot_policy.py::test_a_batch_that_stays_too_large_is_sent_as_it_was",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_topic.py",
        old="or raw - HEADER_SIZE < self.policy.compression_min_bytes",
        new="",
        breaks="plain core: small batches are compressed despite compression_min_bytes",
        tests=("tests/wire/records/accumulator/test_hot_policy.py::test_a_batch_with_fewer_bytes_is_not_compressed",),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="now + lane.linger if no_linger else now",
        new="now",
        breaks="plain core: a thread that needs memory waits for the linger of open batches",
        tests=("tests/wire/records/accumulator/test_hot_policy.py::test_without_linger_every_batch_is_due_whatever_its_topics_linger",),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="                t.capacity = min(t.capacity, size)\n\n",
        new="                t.capacity = size\n\n",
        breaks="plain core: batches grow again to a size that brokers refused",
        tests=("tests/wire/records/accumulator/test_hot_policy.py::test_batches_are_no_larger_than_what_brokers_take",),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="            self._reserve(t, partition, batch._cap + batch._noted)\n",
        new="            self._reserve(t, batch.partition, batch._cap + batch._noted)\n",
        breaks="the bytes of a batch that got its partition late never count there",
        tests=(
            "tests/wire/records/accumulator/test_hot_partitioners.py::test_a_batch_without_a_partition_counts_as_its_topics_and_then_as_the_partitions_bytes",
        ),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_batch.py",
        old=" | TRANSACTIONAL_BIT * self._acc.transactional",
        new="",
        breaks="batches of a transaction lack their bit",
        tests=("tests/producer/test_transactions.py::" + "test_commits_are_read_and_aborts_are_not",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_batch.py",
        old="                if self.count and not r.forced:\n                    return False\n",
        new="                if self.count > 10**9:\n                    return False\n",
        breaks="plain core: callbacks take more memory than there is",
        tests=("tests/wire/records/accumulator/test_hot_memory.py::test_a_batch_is_full_when_there_is_no_memory_for_more_callbacks",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_batch.py",
        old="-self._owed - self._noted)",
        new="-self._owed)",
        breaks="plain core: the memory of callbacks stays reserved",
        tests=("tests/wire/records/accumulator/test_hot_memory.py::test_callbacks_of_records_count_as_memory_until_they_have_returned",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_batch.py",
        old="        if self._callbacks:\n            part._book(part.count)\n",
        new="",
        breaks="plain core: halves of a batch do not account for their callbacks",
        tests=("tests/wire/records/accumulator/test_hot_memory.py::test_halves_of_a_split_batch_reserve_the_memory_of_their_callbacks",),
    ),
)
