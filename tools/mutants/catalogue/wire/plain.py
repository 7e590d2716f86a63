"""Bugs of messages, codecs and the plain-Python core."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="                limit = now + soon\n",
        new="                limit += 0\n",
        breaks="plain core: each partition costs the loop a turn per linger",
        tests=("tests/wire/records/accumulator/test_hot_take.py::test_a_batch_that_is_due_soon_is_taken_with_one_that_is_due",),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="            elif now >= self._expected:\n",
        new="            elif now > self._expected + 1:\n",
        breaks="plain core: the loop spins when no batch comes as expected",
        tests=("tests/wire/records/accumulator/test_hot_take.py::test_when_no_batch_comes_as_expected_the_next_one_wakes_the_loop",),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="        return full is None or (t.name, UNDECIDED if r.free else r.partition) in full\n",
        new="        return full is None\n",
        breaks="plain core: a record takes the room that threads with the same full partition wait for",
        tests=(
            "tests/wire/records/accumulator/test_hot_memory.py::test_only_threads_for_the_same_full_partition_queue_behind_its_waiters",
        ),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="            if self._partition_fits(t, t.sticky, need):\n",
        new="            if self._partition_fits(t, t.sticky, min(need, SMALL)):\n",
        breaks="plain core: a record without key spins beside a partition that has room for it, past max_block_ms",
        tests=("tests/wire/records/accumulator/test_hot_memory.py::test_a_record_without_key_goes_to_the_partition_that_has_room_for_it",),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="        return full is None or (t.name,",
        new="        return True or (t.name,",
        breaks="plain core: threads that wait for room in a full partition slow down those that write to others",
        tests=(
            "tests/wire/records/accumulator/test_hot_memory.py::test_only_threads_for_the_same_full_partition_queue_behind_its_waiters",
        ),
    ),
    Mutant(
        file="pykafka4/wire/protocol/messages_fetch.py",
        old='    isolation_level: int = wire(int8, "4+", ignorable=True)',
        new='    isolation_level: int = wire(int8, "4+", default=1, ignorable=True)',
        breaks="consumers read committed records only",
        tests=("tests/test_options.py::test_the_option_reaches_the_wire_or_the_behaviour[isolation_level]",),
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
        file="pykafka4/wire/records/reference.py",
        old="r.partition = (murmur2(r.key) & MAX_INT) % t.count",
        new="r.partition = (murmur2(r.key) & (MAX_INT >> 1)) % t.count",
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
        old="        if r.partition < 0 and r.key is not None:",
        new="        if r.partition < 0 and r.key:",
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
        file="pykafka4/wire/records/_plain_decode.py",
        old="            batch.check()\n",
        new="            pass\n",
        breaks="the plain core does not check the CRC",
        tests=(
            "tests/wire/records/chunks/test_hot_chunk_damage.py::test_a_wrong_checksum_stops_at_its_batch_and_delivers_what_lies_before",
        ),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_decode.py",
        old="            except ConfigError as error:  # the library of its codec is missing\n",
        new="            except ConfigError as error:  # the library of its codec is missing\n                self.skip()\n",
        breaks="the plain core leaves out a message set whose codec's library is missing",
        tests=("tests/wire/records/chunks/test_hot_chunk_codecs.py::test_a_missing_codec_is_an_error_of_the_partition_that_names_it",),
    ),
)
