"""Bugs of the assignors."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/assignors/range.py",
        old="first = i * each + min(i, extra)",
        new="first = i * each",
        breaks="ranges of partitions overlap",
        tests=("tests/assignors/test_range.py::test_two_topics_of_three_partitions_give_the_first_member_one_more_of_each",),
    ),
    Mutant(
        file="pykafka4/assignors/range.py",
        old="yield range(first, first + each + (i < extra))",
        new="yield range(first, first + each)",
        breaks="partitions are assigned to nobody",
        tests=("tests/assignors/test_range.py::test_two_topics_of_three_partitions_give_the_first_member_one_more_of_each",),
    ),
    Mutant(
        file="pykafka4/assignors/java.py",
        old="    return member.instance_id is None, utf16(name)",
        new="    return True, utf16(name)",
        breaks="static members are not dealt to first",
        tests=("tests/assignors/test_range.py::test_static_members_come_first_by_instance_id_and_keep_their_share_under_a_new_member_id",),
    ),
    Mutant(
        file="pykafka4/assignors/java.py",
        old='text.encode("utf-16-be", "surrogatepass")',
        new='text.encode("utf-8", "surrogatepass")',
        breaks="members are ranked by code points, not as Java does",
        tests=("tests/assignors/test_range.py::test_member_ids_are_ordered_as_java_orders_strings",),
    ),
)
