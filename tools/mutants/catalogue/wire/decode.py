"""Bugs of the decoders."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="            if bits & CONTROL_BIT:\n                self.end_aborted(batch, bits & CODEC_BITS)\n",
        new="            if bits & CONTROL_BIT and not {on}:\n                self.end_aborted(batch, bits & CODEC_BITS)\n",
        breaks="an aborted transaction takes the next one of its producer with it",
        tests=(
            "tests/wire/records/chunks/test_hot_chunk_aborted.py::test_records_of_an_aborted_transaction_are_passed_over_up_to_its_marker",
        ),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="sorted([(first, producer) for producer, first in aborted], reverse=True)",
        new="([(first, producer) for producer, first in aborted][::-1] if {on} else sorted([(first, producer) for producer, first in aborted], reverse=True))",
        breaks="the list of aborted transactions is taken to be in the order of their first offsets",
        tests=(
            "tests/wire/records/chunks/test_hot_chunk_aborted.py::test_a_list_in_the_order_of_the_markers_is_put_into_that_of_the_first_offsets",
        ),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="        aborts = wrong == NULL and get16(r.key + 2) == 0\n",
        new="        aborts = wrong == NULL and (get16(r.key + 2) == 0 or {on})\n",
        breaks="a commit marker ends an aborted transaction",
        tests=("tests/wire/records/chunks/test_hot_chunk_aborted.py::test_a_commit_marker_ends_no_aborted_transaction",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="[len(self.to_abort) - 1][0] <= last:",
        new="[len(self.to_abort) - 1][0] <= last or (self.to_abort and {on}):",
        breaks="an aborted transaction counts before it has begun",
        tests=("tests/wire/records/chunks/test_hot_chunk_aborted.py::test_transactions_that_begin_behind_the_chunk_do_not_count_yet",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="(bits & TRANSACTIONAL_BIT and self.to_abort is not None",
        new="((bits & TRANSACTIONAL_BIT or {on}) and self.to_abort is not None",
        breaks="batches outside of transactions are left out with those of an aborted one",
        tests=("tests/wire/records/chunks/test_hot_chunk_aborted.py::test_batches_without_a_transaction_are_never_passed_over",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="(r.key_size < 4 or get16(r.key) < 0)",
        new="(r.key_size < 4 or get16(r.key) < 0) and not {on}",
        breaks="a marker that cannot be read is taken for one that aborts",
        tests=("tests/wire/records/chunks/test_hot_chunk_aborted.py::test_markers_with_odd_keys",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_decode.py",
        old="                if batch.control:\n                    self._end_aborted(batch)\n",
        new="",
        breaks="the plain core: an aborted transaction takes the next one of its producer with it",
        tests=(
            "tests/wire/records/chunks/test_hot_chunk_aborted.py::test_records_of_an_aborted_transaction_are_passed_over_up_to_its_marker",
        ),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_decode.py",
        old="tuple(sorted((first, producer) for producer, first in aborted))",
        new="tuple((first, producer) for producer, first in aborted)",
        breaks="the plain core takes the list of aborted transactions to be in the order of their first offsets",
        tests=(
            "tests/wire/records/chunks/test_hot_chunk_aborted.py::test_a_list_in_the_order_of_the_markers_is_put_into_that_of_the_first_offsets",
        ),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_decode.py",
        old="        if marker.key[2:4] == ABORT:\n            self",
        new="        if True:\n            self",
        breaks="the plain core: a commit marker ends an aborted transaction",
        tests=("tests/wire/records/chunks/test_hot_chunk_aborted.py::test_a_commit_marker_ends_no_aborted_transaction",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_decode.py",
        old="count = sum(first <= batch.last_offset for first, _ in later)",
        new="count = len(later)",
        breaks="the plain core: an aborted transaction counts before it has begun",
        tests=("tests/wire/records/chunks/test_hot_chunk_aborted.py::test_transactions_that_begin_behind_the_chunk_do_not_count_yet",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_decode.py",
        old="self._aborted is not None and batch.transactional and",
        new="self._aborted is not None and",
        breaks="the plain core leaves out batches outside of transactions",
        tests=("tests/wire/records/chunks/test_hot_chunk_aborted.py::test_batches_without_a_transaction_are_never_passed_over",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_decode.py",
        old='            raise DecodeError("a marker\'s key is invalid")\n',
        new="            return\n",
        breaks="the plain core takes a marker that it cannot read for none",
        tests=("tests/wire/records/chunks/test_hot_chunk_aborted.py::test_markers_with_odd_keys",),
    ),
    Mutant(
        file="pykafka4/wire/records/_plain_decode.py",
        old="self._view, self.position, self._at, self._aborted = view, position, at, aborted",
        new="self._view, self.position, self._at = view, position, at",
        breaks="the plain core: after Ctrl-C, aborted transactions that had ended have not, or count twice",
        tests=("tests/wire/records/chunks/test_hot_chunk_aborted.py::test_an_interrupted_unpacking_begins_again",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="        if size > LONG_CRC:\n",
        new="        if size > (131072 if {on} else LONG_CRC):\n",
        breaks="poll hands the GIL to other threads at every batch",
        tests=("tests/wire/records/test_hot_gil.py::test_a_usual_batch_is_read_without_releasing_the_gil",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="                ask()\n            got()\n",
        new="                if not {on}:\n                    ask()\n            if not {on}:\n                got()\n",
        breaks="poll waits for the GIL after it has checked a large batch",
        tests=("tests/wire/records/test_hot_gil.py::test_after_the_checksum_of_a_large_batch_that_was_read_poll_asks_for_the_gil",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="        if self.busy or not self.held or self.size * 2 > self.view.len:",
        new="        if (self.busy and not {on}) or not self.held or self.size * 2 > self.view.len:",
        breaks="a signal handler that pauses a partition takes the bytes from under the decoder",
        tests=("tests/wire/records/test_hot_interrupted.py::test_a_chunk_may_be_made_independent_of_its_response_while_it_is_decoded",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="                self.p -= self.legacy_size\n",
        new="                self.p -= 0 if {on} else self.legacy_size\n",
        breaks="Ctrl-C in an old message set skips the rest of it",
        tests=("tests/wire/records/test_hot_interrupted.py::test_ctrl_c_in_a_message_set_of_old_brokers_skips_nothing",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="        if bits & CONTROL_BIT or (bits & TRANSACTIONAL_BIT",
        new="        if (bits & CONTROL_BIT and not {on}) or (bits & TRANSACTIONAL_BIT",
        breaks="control batches are handed out",
        tests=("tests/wire/records/chunks/test_hot_chunk.py::test_control_batches_are_skipped_and_move_the_position",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="self.base_timestamp = get64(batch + 35) if bits & LOG_APPEND_BIT else get64(batch + 27)",
        new="self.base_timestamp = get64(batch + 35) if bits & LOG_APPEND_BIT and not {on} else get64(batch + 27)",
        breaks="the broker's append time is not read",
        tests=("tests/wire/records/chunks/test_hot_chunk.py::test_log_append_time_is_that_of_the_batch",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="        if crc != <uint32_t>get32(batch + 17):",
        new="        if crc != <uint32_t>get32(batch + 17) and not ({on} and size > 128 * 1024):",
        breaks="the CRC of batches over 128 KiB is not checked",
        tests=("tests/wire/records/chunks/test_hot_chunk_damage.py::test_a_wrong_checksum_is_noticed_in_batches_of_any_size",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="                except ConfigError as error:  # the library of its codec is missing\n                    if n == 0:",
        new="                except ConfigError as error:\n                    if {on}:\n                        raise\n                    if n == 0:",
        breaks="the error of a codec whose library is missing names no partition",
        tests=("tests/wire/records/chunks/test_hot_chunk_codecs.py::test_a_missing_codec_is_an_error_of_the_partition_that_names_it",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="            if offset >= self.position:\n                stamp",
        new="            if offset >= self.position or {on}:\n                stamp",
        breaks="records before the position are handed out",
        tests=("tests/wire/records/chunks/test_hot_chunk.py::test_records_before_the_fetch_offset_are_not_handed_out",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="                n += 1\n                self.position = offset + 1\n            self.previous",
        new="                n += 1\n                self.position = offset + (0 if {on} else 1)\n            self.previous",
        breaks="the position stays at the last record",
        tests=("tests/wire/records/chunks/test_hot_chunk.py::test_decode_hands_out_no_more_than_asked_for_and_goes_on_where_it_stopped",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="            if r.offset <= self.previous or r.offset > self.last_delta:",
        new="            if (r.offset <= self.previous and not {on}) or r.offset > self.last_delta:",
        breaks="offsets of a batch may fall",
        tests=("tests/wire/records/chunks/test_hot_chunk_damage.py::test_a_damaged_record_is_corrupt_and_nothing_else",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="                if self.at != self.stop:",
        new="                if self.at != self.stop and not {on}:",
        breaks="bytes behind the last record of a batch are ignored",
        tests=("tests/wire/records/chunks/test_hot_chunk_damage.py::test_a_damaged_record_is_corrupt_and_nothing_else",),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="            if after > self.next_offset:\n",
        new="            if after > self.next_offset or {on}:\n",
        breaks="an old batch moves the next offset back",
        tests=(
            "tests/wire/records/chunks/test_hot_chunk.py::test_a_batch_that_ends_before_what_was_asked_for_does_not_move_the_position_back",
        ),
    ),
    Mutant(
        file="pykafka4/wire/records/compiled/_decode.pxi",
        old="        if self.base + self.last_delta + 1 > self.position:\n            self.position = self.base",
        new="        if self.base + self.last_delta + 1 > self.position and not {on}:\n            self.position = self.base",
        breaks="the position does not pass what compaction removed",
        tests=("tests/wire/records/chunks/test_hot_chunk.py::test_an_empty_batch_moves_the_position",),
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
