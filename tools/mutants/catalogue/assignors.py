"""Bugs of the assignors."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

VECTORS: Final = "tests/assignors/test_vectors.py::test_every_assignor_gives_the_results_of_javas"

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
        old="yield slice(first, first + each + (i < extra))",
        new="yield slice(first, first + each)",
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
    Mutant(
        file="pykafka4/assignors/range.py",
        old="            self.extra -= 1\n",
        new="            pass\n",
        breaks="with racks, too many members get one more partition",
        tests=(VECTORS,),
    ),
    Mutant(
        file="pykafka4/assignors/range.py",
        old="        if len(group) > 1:\n",
        new="        if False:\n",
        breaks="with racks, topics with the same members are not assigned alike",
        tests=(VECTORS,),
    ),
    Mutant(
        file="pykafka4/assignors/round_robin.py",
        old="                turn = takers[at] + 1\n",
        new="                turn = 0\n",
        breaks="the first member gets everything",
        tests=("tests/assignors/test_round_robin.py::test_two_topics_of_three_partitions_are_assigned_in_turns",),
    ),
    Mutant(
        file="pykafka4/assignors/java.py",
        old="    return sorted(members, key=lambda member: _spread(_hash(member.member_id)) & last)",
        new="    return list(members)",
        breaks="members are taken in the order of the coordinator, not in that of Java's HashMap",
        tests=("tests/assignors/test_java_orders.py::test_members_come_by_place_and_in_one_place_by_insertion",),
    ),
    Mutant(
        file="pykafka4/assignors/java.py",
        old="    while entries > places * 3 // 4:\n",
        new="    while entries > places:\n",
        breaks="a HashMap grows too late",
        tests=("tests/assignors/test_java_orders.py::test_the_thirteenth_member_doubles_the_places",),
    ),
    Mutant(
        file="pykafka4/assignors/java.py",
        old="self._most = max(self._most, len(self._tps))",
        new="self._most = len(self._tps)",
        breaks="a HashSet shrinks",
        tests=("tests/assignors/test_java_orders.py::test_the_first_partition_of_a_set_depends_on_the_most_that_it_had",),
    ),
    Mutant(
        file="pykafka4/assignors/racks.py",
        old="and any(racks != everywhere for racks in different)",
        new="",
        breaks="racks count where every partition is in every rack",
        tests=(VECTORS,),
    ),
    Mutant(
        file="pykafka4/assignors/sticky.py",
        old="        if generation < others:\n            return\n",
        new="",
        breaks="a member that missed a generation takes partitions from those that did not",
        tests=("tests/assignors/test_sticky.py::test_a_member_that_missed_a_generation_loses_what_another_one_has_now",),
    ),
    Mutant(
        file="pykafka4/assignors/sticky.py",
        old="            self.contested.add(tp)\n",
        new="            pass\n",
        breaks="a partition that two members claim goes to one of them at once",
        tests=("tests/assignors/test_sticky.py::test_a_partition_that_two_members_claim_is_released_by_both",),
    ),
    Mutant(
        file="pykafka4/assignors/sticky.py",
        old="            result[taker].remove(tp)\n",
        new="            pass\n",
        breaks="a cooperative member gets a partition before its owner has released it",
        tests=("tests/assignors/test_sticky.py::test_a_partition_that_moves_is_left_out_until_its_owner_has_released_it",),
    ),
    Mutant(
        file="pykafka4/assignors/sticky.py",
        old="[member for member in members if member.topics]",
        new="list(members)",
        breaks="a member without topics gets partitions",
        tests=("tests/assignors/test_sticky.py::test_a_member_without_topics_gets_nothing_whatever_its_place",),
    ),
    Mutant(
        file="pykafka4/assignors/sticky.py",
        old="                if 0 <= tp.partition < len(topics.get(tp.topic, ())):\n",
        new="                if tp.topic in topics:\n",
        breaks="partitions that do not exist any more are assigned",
        tests=("tests/assignors/test_sticky.py::test_partitions_that_do_not_exist_are_not_assigned",),
    ),
    Mutant(
        file="pykafka4/assignors/sticky_constrained.py",
        old="        fit.sort(key=lambda tp: (tp.partition, tp.topic))\n",
        new="",
        breaks="members keep other partitions than with Java",
        tests=(VECTORS,),
    ),
    Mutant(
        file="pykafka4/assignors/sticky_general.py",
        old="former is not None and tp.topic in self._subscribed[former] and",
        new="former is not None and",
        breaks="a partition goes back to a member that is no longer subscribed to it",
        tests=(VECTORS,),
    ),
    Mutant(
        file="pykafka4/assignors/sticky_general.py",
        old="        return tp if moved_back is None else moved_back.first()\n",
        new="        return tp\n",
        breaks="members swap partitions",
        tests=(VECTORS,),
    ),
)
