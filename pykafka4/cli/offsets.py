"""Changes groups and their offsets: `groups rewind`, `create`, `delete`, `delete-offsets`. Without `--execute` a command only
shows its plan, and the obstacles that it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import click

from pykafka4.admin.calls import value_or_raise
from pykafka4.admin.values import OffsetPlan
from pykafka4.cli.arguments import GoalOptions, goal_options, is_given, targets
from pykafka4.cli.invocation import DONE, FAILED, Invocation, outcomes, show_error, show_errors, show_note
from pykafka4.cli.listing import as_json_option, execute_option
from pykafka4.cli.live import live_obstacle, rewind_live
from pykafka4.cli.show import console, counted, error_json, plan_json, plan_table, print_json, table
from pykafka4.core.admin.values import CONSUMER, GroupDescription
from pykafka4.errors import REWIND_INSTEAD, GroupNotEmpty, KafkaError, PartialFailure, short_name
from pykafka4.misuse import check_group_to_set
from pykafka4.records import TopicPartition

__all__ = ["create", "delete", "delete_offsets", "rewind"]

topic_option = click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[:0,1,…]", help="A topic, or some of its partitions. Can be repeated."
)


@goal_options
@click.command(
    epilog="""\b
Examples:
  pykafka4 groups rewind billing --topic orders --ago 2h
  pykafka4 groups rewind billing --all-topics --to-earliest --execute
  pykafka4 groups rewind billing --topic orders --ago 2h --live --execute
"""
)
@click.argument("group")
@topic_option
@click.option("--all-topics", is_flag=True, help="All partitions for which the group has committed an offset.")
@click.option("--live", is_flag=True, help="Have the members move the offsets while they run.")
@execute_option
@as_json_option
@click.pass_obj
def rewind(
    invocation: Invocation, /, group: str, topics: tuple[str, ...], all_topics: bool, live: bool, execute: bool, json_: bool, **goals: Any
) -> int:
    """Move the committed offsets of a group without members, or, with --live, of a running group.

    An offset outside of the log becomes the beginning or the end of the log. Without --live a group that has members is refused, and the
    members are listed. With --live a member joins for a moment, and the others continue from the new offsets: all members must be
    consumers of pykafka4 in the classic protocol. If a member is not, nothing changes.
    """
    goal = GoalOptions(goals)
    if bool(topics) + all_topics + (goal.is_file and not topics and not all_topics) != 1:
        raise click.UsageError("name the partitions with either --topic or --all-topics; --from-file alone names its own")
    wanted = None if not topics else targets(topics)
    with invocation.admin() as admin:
        plan = admin.plan_offsets(check_group_to_set(group), wanted, **goal.options(group), timeout=invocation.timeout)
        if live:
            return _carry_out(partial(rewind_live, invocation, plan), plan, live_obstacle(plan), execute, json_)
        return _carry_out(partial(admin.set_offsets, plan.group_id, plan, invocation.timeout), plan, _obstacle(plan), execute, json_)


def _obstacle(plan: OffsetPlan) -> KafkaError | None:
    """The reason why the plan cannot be carried out; None if no reason is known."""
    if not plan.rows:
        return KafkaError(f"group {plan.group_id} has committed no offsets to move; name topics with --topic")
    if plan.description is not None and plan.description.is_active:
        what = f"offsets of group {plan.group_id} cannot be set"
        return GroupNotEmpty.with_members(plan.group_id, plan.description.members, what, REWIND_INSTEAD)
    return None


def _carry_out(commit: Callable[[], None], plan: OffsetPlan, obstacle: KafkaError | None, execute: bool, json_: bool) -> int:
    executed, error, errors = execute and obstacle is None, obstacle, dict[TopicPartition, KafkaError]()
    if executed:
        try:
            commit()
        except PartialFailure as failure:  # the other offsets are committed
            error, errors = failure, failure.errors
    if json_ and obstacle is not None:  # each partition gets the error
        print_json(*plan_json(plan, dict.fromkeys((row.partition for row in plan), obstacle), executed))
        if not plan.rows:
            print_json({"group_id": plan.group_id, **error_json(obstacle)})
    elif json_:
        print_json(*plan_json(plan, errors, executed))
    elif plan.rows:
        console().print(plan_table(plan, errors))
    if executed:
        show_note(f"{counted(len(plan) - len(errors), 'offset')} committed")
    elif error is None:
        show_note("nothing has been changed; --execute commits these offsets")
    return DONE if error is None else show_error(error)


@goal_options
@click.command(
    epilog="""\b
Example:
  pykafka4 groups create billing --topic orders --to-latest --execute
"""
)
@click.argument("group")
@topic_option
@execute_option
@as_json_option
@click.pass_obj
def create(invocation: Invocation, /, group: str, topics: tuple[str, ...], execute: bool, json_: bool, **goals: Any) -> int:
    """Create a group by committing its first offsets; the default is --to-earliest."""
    if not any(map(is_given, goals.values())):
        goals["to_earliest"] = True
    goal = GoalOptions(goals)
    if goal.name in ("shift", "to_current"):
        raise click.UsageError(f"--{goal.name.replace('_', '-')}: a new group has no offsets yet")
    if not topics and not goal.is_file:
        raise click.UsageError("no topics are named: give --topic or --from-file")
    wanted, start = targets(topics) or None, goal.options(group)["to"]
    with invocation.admin() as admin:
        plan = admin.plan_offsets(check_group_to_set(group), wanted, to=start, timeout=invocation.timeout)
        exists = KafkaError(f"group {group} already exists; `rewind` moves its offsets") if plan.exists else None
        return _carry_out(partial(admin.set_offsets, plan.group_id, plan, invocation.timeout), plan, exists, execute, json_)


@click.command(
    epilog="""\b
Example:
  pykafka4 groups delete billing --execute
"""
)
@click.argument("group", nargs=-1, required=True)
@execute_option
@as_json_option
@click.pass_obj
def delete(invocation: Invocation, group: tuple[str, ...], execute: bool, json_: bool) -> int:
    """Delete groups that have no members, and their offsets."""
    with invocation.admin() as admin:
        described = admin.describe_groups(group, invocation.timeout)
        found = {name: _deletion(one) for name, one in described.items()}
        if execute:
            possible = [name for name, error in found.items() if error is None]
            found.update(outcomes(lambda: admin.delete_groups(possible, invocation.timeout), possible))
    if json_:
        for name, error in found.items():
            print_json({"group_id": name, "deleted": execute and error is None, **(error_json(error) if error is not None else {})})
    else:
        done = "deleted" if execute else "would be deleted"
        console().print(table(("group", "outcome"), [(name, done) for name, error in found.items() if error is None]))
    errors = [error for error in found.values() if error is not None]
    for error in errors:
        show_error(error)
    if not execute:
        show_note("nothing has been changed; --execute deletes these groups")
    return FAILED if errors else DONE


def _deletion(found: GroupDescription | KafkaError) -> KafkaError | None:
    """The reason why the group cannot be deleted; None if no reason is known."""
    if isinstance(found, KafkaError):
        return found
    if found.is_active:
        return GroupNotEmpty.with_members(found.group_id, found.members, f"group {found.group_id} cannot be deleted")
    return None


@click.command(
    "delete-offsets",
    epilog="""\b
Example:
  pykafka4 groups delete-offsets billing --topic orders:0,1 --execute
""",
)
@click.argument("group")
@click.option(
    "--topic", "topics", multiple=True, required=True, metavar="TOPIC[:0,1,…]", help="A topic, or some of its partitions. Can be repeated."
)
@execute_option
@as_json_option
@click.pass_obj
def delete_offsets(invocation: Invocation, group: str, topics: tuple[str, ...], execute: bool, json_: bool) -> int:
    """Delete committed offsets of topics or partitions; the offsets of other topics stay.

    The offsets of a topic cannot be deleted while members of the group have partitions of the topic.
    """
    wanted = dict.fromkeys(targets(topics))
    with invocation.admin() as admin:
        found = value_or_raise(admin.group_offsets([group], invocation.timeout)[group])
        stored = {tp: at.offset for tp, at in found.items() if tp.topic in wanted or tp in wanted}
        if not stored:
            raise KafkaError(f"group {group} has committed no offset of {', '.join(map(str, wanted))}")
        errors = _in_use(admin.describe_groups([group], invocation.timeout)[group], stored)
        possible = [tp for tp in stored if tp not in errors]
        if execute and possible:
            try:
                admin.delete_offsets(group, possible, invocation.timeout)
            except PartialFailure as failure:  # the other offsets are deleted
                errors |= failure.errors
    outcomes = [(*tp, offset, errors.get(tp)) for tp, offset in stored.items()]
    known = {*stored, *(tp.topic for tp in stored)}  # partitions and topics with a committed offset
    absent = [(*_place(item), None, KafkaError(f"group {group} has committed no offset of {item}")) for item in wanted if item not in known]
    if json_:
        print_json(*(_deletion_json(group, *row, executed=execute) for row in (*outcomes, *absent)))
    else:
        done = "deleted" if execute else "would be deleted"
        rows = [(*row, done if error is None else short_name(error)) for *row, error in outcomes]
        console().print(table(("topic", "partition", "committed", "outcome"), rows))
    if not execute:
        show_note("nothing has been changed; --execute deletes these offsets")
    return show_errors({str(error): error for *_, error in (*outcomes, *absent) if error is not None})


def _place(item: str | TopicPartition) -> tuple[str, int | None]:
    return (item, None) if isinstance(item, str) else (item.topic, item.partition)


def _in_use(found: GroupDescription | KafkaError, stored: Iterable[TopicPartition]) -> dict[TopicPartition, KafkaError]:
    """Return an error for each offset that cannot be deleted because members have partitions of its topic, or are not consumers."""
    if isinstance(found, KafkaError) or not found.is_active:
        return {}
    topics = {tp.topic for member in found.members for tp in (*member.partitions, *(member.target or ()))}
    refused = [tp for tp in stored if tp.topic in topics or found.protocol_type != CONSUMER]
    named = ", ".join(dict.fromkeys(tp.topic for tp in refused))
    error = GroupNotEmpty.with_members(found.group_id, found.members, f"offsets of group {found.group_id} for {named} cannot be deleted")
    return dict.fromkeys(refused, error)


def _deletion_json(
    group: str, topic: str, partition: int | None, offset: int | None, error: KafkaError | None, *, executed: bool
) -> dict[str, Any]:
    place = {"group_id": group, "topic": topic, "partition": partition, "offset": offset}
    return {**place, "deleted": executed and error is None, **(error_json(error) if error is not None else {})}
