"""Bugs of the errors for wrong calls and for names of other clients."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/misuse.py",
        old="elif type(value) is TopicPartition and topic is value.topic:",
        new="elif type(value) is TopicPartition:",
        breaks="a partition keeps a subclass of str as its topic",
        tests=("tests/test_misuse.py::test_a_partition_is_made_of_plain_values",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="elif type(value) is TopicPartition and topic is value.topic:",
        new="elif topic is value[0]:",
        breaks="a pair passes for a TopicPartition",
        tests=("tests/test_misuse.py::test_a_partition_is_made_of_plain_values",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="if type(partition) is not int or not 0",
        new="if not isinstance(partition, int) or not 0",
        breaks="the quick check takes partition True for partition 1",
        tests=("tests/test_misuse.py::test_what_is_no_partition_is_refused",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="    if type(value) is int and 0 <= value <= highest:",
        new="    if type(value) is int and value <= highest:",
        breaks="negative numbers are taken where a count is due",
        tests=("tests/consumer/test_misuse.py::test_misuse_is_answered_with_the_right_way",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="[a-zA-Z0-9._-]{1,249}",
        new="[a-zA-Z0-9._-]{1,255}",
        breaks="topic names longer than 249 characters are taken",
        tests=("tests/test_misuse.py::test_illegal_topic_names_are_refused",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old='or topic in (".", ".."):',
        new='or topic in (".",):',
        breaks="the topic name .. is taken",
        tests=("tests/test_misuse.py::test_illegal_topic_names_are_refused",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="timeout < 0 or not timeout <= math.inf",
        new="not timeout <= math.inf",
        breaks="negative timeouts are taken",
        tests=("tests/consumer/test_misuse.py::test_misuse_is_answered_with_the_right_way",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old='if isinstance(value, bool) or not hasattr(type(value), "__index__"):',
        new='if not hasattr(type(value), "__index__"):',
        breaks="partition True is taken for partition 1",
        tests=("tests/test_misuse.py::test_what_is_no_partition_is_refused",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="        if getattr(type(instance), cls._shortcut) is cls._written:",
        new="        if True:",
        breaks="a subclass that overrides send is passed over",
        tests=("tests/producer/test_handle.py::test_a_subclass_may_override_send",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="        super().__setattr__(name, value)\n        cls._look_again(name)",
        new="        super().__setattr__(name, value)",
        breaks="a patch of the class does not reach older instances",
        tests=("tests/producer/test_handle.py::test_a_patch_of_the_class_reaches_instances_made_before_and_ends_with_it",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="        super().__delattr__(name)\n        cls._look_again(name)",
        new="        super().__delattr__(name)",
        breaks="a patch of a subclass does not end with it",
        tests=("tests/producer/test_handle.py::test_a_patch_of_a_subclass_ends_with_it",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old='(f"; did you mean {near[0]!r}?" if near else "")',
        new='""',
        breaks="a slip in a method's name gets no hint",
        tests=("tests/test_misuse.py::test_a_peers_name_or_a_slip_gets_a_hint",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="    if name in peers_names:\n",
        new="    if False:\n",
        breaks="a method of another client gets no hint",
        tests=("tests/test_misuse.py::test_a_peers_name_or_a_slip_gets_a_hint",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="if not isinstance(value, tuple) or len(value) != 2:",
        new="if not isinstance(value, tuple):",
        breaks="a triple is taken for a partition",
        tests=("tests/test_misuse.py::test_what_is_no_partition_is_refused",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="timeout < 0 or not timeout <= math.inf",
        new="timeout < 0",
        breaks="a timeout of NaN is taken",
        tests=("tests/test_misuse.py::test_what_is_no_timeout_is_refused",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="if isinstance(timeout, bool) or not isinstance(timeout, Real)",
        new="if not isinstance(timeout, Real)",
        breaks="a timeout of True is taken for a second",
        tests=("tests/test_misuse.py::test_what_is_no_timeout_is_refused",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="    return float(timeout) if timeout < 1e9 else 1e9",
        new="    return float(timeout)",
        breaks="an endless timeout overflows what the system can wait",
        tests=("tests/test_misuse.py::test_a_timeout_is_seconds_that_the_system_can_wait",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="    topic = str.__str__(topic)  #",
        new="    topic = str(topic)  #",
        breaks="a topic of a subclass of str is what its methods make of it",
        tests=("tests/test_misuse.py::test_a_topic_of_a_subclass_of_str_is_its_text_whatever_its_methods_say",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="    if not 0 <= number <= highest:",
        new="    if not 0 <= number:",
        breaks="partitions over 2^31 - 1 are taken",
        tests=("tests/test_misuse.py::test_a_partition_that_no_broker_can_have_is_named",),
    ),
    Mutant(
        file="pykafka4/peers.py",
        old="OPTIONS.get(name) or next((why for prefix, why in PREFIXES.items() if name.startswith(prefix)), None)",
        new="OPTIONS.get(name)",
        breaks="options of a whole family of another client get no hint",
        tests=("tests/test_peers.py::test_a_peers_option_gets_its_hint",),
    ),
    Mutant(
        file="pykafka4/peers.py",
        old='return f"did you mean {instead!r}?" if instead in known else None',
        new='return f"did you mean {instead!r}?"',
        breaks="a producer is recommended an option of consumers",
        tests=("tests/test_peers.py::test_an_option_of_consumers_is_not_recommended_to_producers",),
    ),
    Mutant(
        file="pykafka4/peers.py",
        old='    "compression": "compression_type",\n',
        new='    "compression": "codec",\n',
        breaks="a hint names an option that does not exist",
        tests=("tests/test_peers.py::test_a_peers_option_is_none_of_ours_and_its_counterpart_is_one",),
    ),
    Mutant(
        file="pykafka4/peers.py",
        old='    "partitions_for_topic": "partitions_for",\n',
        new='    "partitions_for_topic": "partitions",\n',
        breaks="a hint names a method that does not exist",
        tests=("tests/test_peers.py::test_a_peers_method_is_none_of_ours_and_its_counterpart_is_one",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="    if not isinstance(offsets, Mapping):",
        new="    if False:",
        breaks="what maps no partitions to offsets is not named",
        tests=("tests/consumer/test_misuse.py::test_wrong_arguments_of_commits_assignments_and_sharing_are_named",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old='len(text.encode(errors="replace")) > MOST_METADATA or',
        new="",
        breaks="metadata that brokers refuse is sent",
        tests=("tests/consumer/test_misuse.py::test_wrong_arguments_of_commits_assignments_and_sharing_are_named",),
    ),
    Mutant(
        file="pykafka4/misuse.py",
        old="return API_SECONDS if limit is None else limit",
        new="return 2.0",
        breaks="position and commit ignore their timeout",
        tests=("tests/consumer/test_misuse.py::test_position_gives_up_at_its_timeout",),
    ),
)
