"""Bugs of the plain-Python core and of the codecs."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="r.partition = (murmur2(r.key) & MAX_INT) % t.count",
        new="r.partition = (murmur2(r.key) & (MAX_INT >> 1)) % t.count",
        breaks="the plain core sends keys to other partitions than Java",
        tests=("tests/wire/records/accumulator/test_hot_partition.py::test_keys_choose_partitions_as_in_java",),
    ),
    Mutant(
        file="pykafka4/wire/records/reference.py",
        old="        if r.partition < 0 and r.key is not None:",
        new="        if r.partition < 0 and r.key:",
        breaks="the plain core treats an empty key as no key when it chooses the partition",
        tests=("tests/wire/records/accumulator/test_hot_partition.py::test_an_empty_key_is_a_key",),
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
        file="pykafka4/wire/records/_plain_batch.py",
        old="            last_offset_delta=self.count - 1,\n",
        new="            last_offset_delta=self.count,\n",
        breaks="the plain core's last offset of a batch is one too far",
        tests=("tests/wire/records/accumulator/test_hot_batch.py::test_a_batch_is_what_kafka_expects",),
    ),
    Mutant(
        file="pykafka4/wire/records/compression.py",
        old="        if size > self.max_size - self._size:",
        new="        if False:",
        breaks="decompression has no bound",
        tests=("tests/wire/records/test_compression.py::test_one_byte_over_the_bound_is_too_large",),
    ),
)
