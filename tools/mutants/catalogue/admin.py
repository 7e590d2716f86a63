"""Bugs of the admin client's calls, and of the command line."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

ADMIN, COMMAND = "tests/admin/test_admin.py::", "tests/admin/test_command.py::"
CHANGES = "tests/admin/test_changes.py::"

MUTANTS: Final = (
    Mutant(
        file="pykafka4/admin/groups.py",
        old="for tp, error in errors.items() if is_occupied(error)}",
        new="for tp, error in errors.items() if False}",
        breaks="a member that joins after the look is not named",
        tests=(CHANGES + "test_a_member_that_joins_after_the_look_is_named_too",),
    ),
    Mutant(
        file="pykafka4/admin/groups.py",
        old="            return dict.fromkeys(refused, error)\n",
        new="            raise\n",
        breaks="a change of which a part was refused is called refused as a whole",
        tests=(CHANGES + "test_offsets_of_topics_that_members_have_stay_and_others_are_deleted",),
    ),
    Mutant(
        file="pykafka4/admin/rewinding.py",
        old="    new = min(max(wanted, log.start), log.end)\n",
        new="    new = wanted\n",
        breaks="an offset outside of the log is planned",
        tests=(ADMIN + "test_offsets_are_planned_each_way",),
    ),
    Mutant(
        file="pykafka4/admin/values.py",
        old="self.description is not None or self.has_committed",
        new="self.description is not None",
        breaks="the offsets of a group of streams are replaced by creating it again",
        tests=(CHANGES + "test_a_group_of_another_type_that_has_offsets_is_not_created_again",),
    ),
    Mutant(
        file="pykafka4/admin/__init__.py",
        old="    return [str.__str__(item) for item in value]",
        new="    return list(value)",
        breaks="methods of an application's text run on the loop",
        tests=(ADMIN + "test_subclasses_of_text_are_taken_as_text",),
    ),
    Mutant(
        file="pykafka4/admin/desk.py",
        old="            promise.set_exception(ClosedError(CLOSED))\n",
        new="            pass\n",
        breaks="a call waits for its timeout after the admin client was closed",
        tests=(ADMIN + "test_closing_ends_a_call_of_another_thread",),
    ),
    Mutant(
        file="pykafka4/admin/files.py",
        old="        if tp in found:\n",
        new="        if False:\n",
        breaks="the last of two offsets of a partition counts",
        tests=("tests/admin/test_files.py::test_what_is_not_understood_is_named",),
    ),
    Mutant(
        file="pykafka4/admin/desk.py",
        old="        if desk.closed:",
        new="        if False:",
        breaks="a call waits for its timeout when the admin client is closed between two of its questions",
        tests=(ADMIN + "test_closing_between_two_questions_of_a_call_ends_it",),
    ),
    Mutant(
        file="pykafka4/admin/rewinding.py",
        old="                answers.end()\n",
        new="                pass\n",
        breaks="an interrupted plan leaves questions behind",
        tests=(ADMIN + "test_a_call_that_is_interrupted_leaves_nothing",),
    ),
    Mutant(
        file="pykafka4/admin/rewinding.py",
        old="*sorted(names - given), ",
        new="",
        breaks="a topic without an offset in the mapping is dropped silently",
        tests=(CHANGES + "test_what_has_no_offset_in_a_mapping_is_named_and_nothing_is_done",),
    ),
    Mutant(
        file="pykafka4/admin/arguments.py",
        old="    if size > LONGEST_ID:",
        new="    if False:",
        breaks="a group id that is too long fails the other groups of its request",
        tests=(ADMIN + "test_wrong_calls_are_refused_with_the_right_one",),
    ),
    Mutant(
        file="pykafka4/admin/files.py",
        old="yield place, cells[0] if",
        new="yield place, cells[0].strip() if",
        breaks="ids of groups that differ in spaces are mixed",
        tests=("tests/admin/test_files.py::test_ids_that_differ_in_spaces_are_those_of_different_groups",),
    ),
    Mutant(
        file="pykafka4/cli/groups.py",
        old="named=len(names) > 1",
        new="named=len(good) > 1",
        breaks="an export of which a part failed can be read as that of any group",
        tests=(COMMAND + "test_an_export_of_which_a_part_failed_has_the_ids_of_groups",),
    ),
    Mutant(
        file="pykafka4/cli/offsets.py",
        old="= execute and obstacle is None, obstacle,",
        new="= obstacle is None, obstacle,",
        breaks="a rewind is carried out without --execute",
        tests=(COMMAND + "test_a_rewind_is_shown_first_and_done_with_execute",),
    ),
    Mutant(
        file="pykafka4/cli/offsets.py",
        old="        except PartialFailure as failure:  # the other offsets are committed\n",
        new="        except TypeError as failure:\n",
        breaks="after a rewind that failed in part it is not shown what was changed",
        tests=(COMMAND + "test_after_a_part_failed_it_is_shown_what_was_changed",),
    ),
    Mutant(
        file="pykafka4/cli/offsets.py",
        old="if tp.topic in topics or",
        new="if",
        breaks="nothing says that the deletion of offsets would be refused",
        tests=(COMMAND + "test_the_deletion_of_offsets_that_members_have_is_refused_and_what_is_not_committed_is_named",),
    ),
    Mutant(
        file="pykafka4/cli/arguments.py",
        old='            if len(text.lstrip("0")) < DIGITS:\n',
        new="            if False:\n",
        breaks="a date without hyphens moves a group to its first offsets",
        tests=(COMMAND + "test_wrong_usage_is_code_2_or_names_the_file",),
    ),
    Mutant(
        file="pykafka4/cli/groups.py",
        old="and not any(good.values()):",
        new="and False:",
        breaks="an export that fails empties the file of an earlier one",
        tests=(COMMAND + "test_an_export_without_offsets_leaves_the_file_of_an_earlier_one",),
    ),
    Mutant(
        file="pykafka4/cli/main.py",
        old='        if "--json" in arguments and',
        new="        if False and",
        breaks="a program that reads the result of a failed command gets no document",
        tests=(COMMAND + "test_a_command_that_fails_writes_a_document",),
    ),
    Mutant(
        file="pykafka4/cli/offsets.py",
        old="        if execute:\n            possible",
        new="        if True:\n            possible",
        breaks="groups are deleted without --execute",
        tests=(COMMAND + "test_groups_and_offsets_are_deleted",),
    ),
    Mutant(
        file="pykafka4/cli/arguments.py",
        old="    return value is not None and value is not False\n",
        new="    return bool(value)\n",
        breaks="an offset of 0 on the command line is overlooked",
        tests=(COMMAND + "test_wrong_usage_is_code_2_or_names_the_file",),
    ),
    Mutant(
        file="pykafka4/cli/show.py",
        old='    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)\n',
        new="    return text\n",
        breaks="a client id can change the terminal of who looks at its group",
        tests=(COMMAND + "test_what_users_chose_cannot_change_a_terminal",),
    ),
    Mutant(
        file="pykafka4/cli/tables.py",
        old="[text] if cell_len(text) <= width else chop_cells(text, width)",
        new="chop_cells(text, width)[:1] or [text]",
        breaks="a text that is wider than its column of a table is cut",
        tests=("tests/admin/test_tables.py::test_nothing_is_cut",),
    ),
    Mutant(
        file="pykafka4/cli/tables.py",
        old="        texts = [index for index, column in enumerate(self.columns) if column not in NUMBERS]\n",
        new="        texts = [*range(len(self.columns))]\n",
        breaks="numbers in a table are folded",
        tests=("tests/admin/test_tables.py::test_numbers_are_in_their_columns_and_texts_are_folded",),
    ),
    Mutant(
        file="pykafka4/cli/groups.py",
        old="    return max(code, complain_of(errors_of(found)), failed_partitions(found))\n\n\ndef watch(",
        new="    complain_of(errors_of(found))\n    return code\n\n\ndef watch(",
        breaks="the exit code says nothing of a group that failed",
        tests=(COMMAND + "test_one_denied_group_is_told_beside_the_others",),
    ),
    Mutant(
        file="pykafka4/__main__.py",
        old="    _fill_closed()\n",
        new="",
        breaks="a command whose output was closed ends with a traceback, after it has changed offsets",
        tests=("tests/admin/test_command.py::test_a_closed_output_fails_no_command",),
    ),
)
