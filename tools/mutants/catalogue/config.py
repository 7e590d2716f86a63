"""Bugs of options: their checks, units and hints."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/servers.py",
        old='(part.strip(), "", "9092")',
        new='(part.strip(), "", "9093")',
        breaks="the default port is not Kafka's",
        tests=("tests/test_config.py::test_servers_are_understood",),
    ),
    Mutant(
        file="pykafka4/servers.py",
        old="            IPv6Address(address)\n",
        new="            address\n",
        breaks="any text with colons is taken for an address",
        tests=("tests/test_config.py::test_what_can_never_be_resolved_is_refused_with_the_way_out",),
    ),
    Mutant(
        file="pykafka4/servers.py",
        old='frozenset(",;/@[]")',
        new='frozenset(",/@[]")',
        breaks="brokers separated by semicolons are taken for one host",
        tests=("tests/test_config.py::test_what_can_never_be_resolved_is_refused_with_the_way_out",),
    ),
    Mutant(
        file="pykafka4/servers.py",
        old="(bytes, bytearray, Mapping)",
        new="(bytes, bytearray)",
        breaks="the ports of a mapping of brokers are ignored",
        tests=("tests/test_config.py::test_what_can_never_be_resolved_is_refused_with_the_way_out",),
    ),
    Mutant(
        file="pykafka4/servers.py",
        old="not 0 < number < 65536",
        new="not 0 < number",
        breaks="ports over 65535 are taken",
        tests=("tests/test_config.py::test_wrong_servers_are_named",),
    ),
    Mutant(
        file="pykafka4/option_fields.py",
        old="if type(value) not in kinds or not low <= value <= high:",
        new="if type(value) not in kinds or not low <= value:",
        breaks="numbers over the range are taken",
        tests=("tests/test_config.py::test_what_is_no_number_in_range_is_refused",),
    ),
    Mutant(
        file="pykafka4/option_fields.py",
        old="if type(value) not in kinds or not low <= value <= high:",
        new="if type(value) not in kinds or not value <= high:",
        breaks="numbers under the range are taken",
        tests=("tests/test_config.py::test_a_wrong_value_is_named_with_what_is_allowed",),
    ),
    Mutant(
        file="pykafka4/option_fields.py",
        old="if type(value) not in kinds or not low <= value <= high:",
        new="if not low <= value <= high:",
        breaks="True is taken for the number 1",
        tests=("tests/test_config.py::test_a_wrong_value_is_named_with_what_is_allowed",),
    ),
    Mutant(
        file="pykafka4/option_fields.py",
        old="if not isinstance(value, str) or value not in words:",
        new="if not isinstance(value, str):",
        breaks="words that are not among the choices are taken",
        tests=("tests/test_config.py::test_a_wrong_value_is_named_with_what_is_allowed",),
    ),
    Mutant(
        file="pykafka4/option_fields.py",
        old="        if size > LONGEST_STRING:",
        new="        if False:",
        breaks="a text longer than the protocol can carry is taken",
        tests=("tests/test_config.py::test_a_text_that_the_protocol_cannot_carry_is_refused",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old="elif self.enable_idempotence and self.acks != -1:",
        new="elif False:",
        breaks="idempotence with acks=1 is taken",
        tests=("tests/test_config.py::test_a_wrong_value_is_named_with_what_is_allowed",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old='object.__setattr__(self, "enable_idempotence", self.acks == -1)',
        new='object.__setattr__(self, "enable_idempotence", True)',
        breaks="acks=1 leaves idempotence on",
        tests=("tests/test_config.py::test_idempotence_follows_acks",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old="if self.enable_idempotence and self.max_in_flight_requests_per_connection > 5:",
        new="if False:",
        breaks="idempotence with six requests in flight is taken",
        tests=("tests/test_config.py::test_a_wrong_value_is_named_with_what_is_allowed",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old="self.buffer_memory // 4, 4 * KIB",
        new="self.buffer_memory // 2, 4 * KIB",
        breaks="a partition may use half of the memory by default",
        tests=("tests/test_config.py::test_a_partition_gets_a_quarter_of_the_memory",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old="self.group_id is not None and self.heartbeat_interval_ms >= self.session_timeout_ms",
        new="False",
        breaks="heartbeats rarer than the session time-out are taken",
        tests=("tests/test_config.py::test_a_wrong_consumer_option_is_named",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old="if self.delivery_timeout_ms < self.linger_ms:",
        new="if False:",
        breaks="a delivery time-out shorter than linger_ms is taken",
        tests=("tests/test_config.py::test_a_wrong_value_is_named_with_what_is_allowed",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old="if self.group_instance_id is not None and self.group_id is None:",
        new="if False:",
        breaks="a static member without a group is taken",
        tests=("tests/test_config.py::test_a_wrong_consumer_option_is_named",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old="if self.fetch_max_bytes > self.receive_message_max_bytes:",
        new="if False:",
        breaks="fetches larger than what may be received are taken",
        tests=("tests/test_config.py::test_a_wrong_consumer_option_is_named",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old="        _warned.add(acks)\n",
        new="",
        breaks="what acks cost is said for every producer",
        tests=("tests/test_config.py::test_the_cost_of_acks_is_printed_once",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old="            if name not in known:\n                raise ConfigError(_unknown(name, known, cls))",
        new="            pass",
        breaks="an unknown option gets no hint",
        tests=("tests/test_config.py::test_an_unknown_option_gets_the_nearest_real_name",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old='name.replace(".", "_").replace("-", "_").lower()',
        new="name.lower()",
        breaks="options written with dots get no hint",
        tests=("tests/test_peers.py::test_a_peers_option_gets_its_hint",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old='unknown = [name for name in self.partition_assignment_strategy if name != "range"]',
        new="unknown: list[str] = []",
        breaks="an assignment strategy that nobody implements is taken",
        tests=("tests/test_config.py::test_a_wrong_consumer_option_is_named",),
    ),
    Mutant(
        file="pykafka4/config.py",
        old='table = {"all": -1, "-1": -1,',
        new='table = {"all": 1, "-1": -1,',
        breaks="acks='all' means one replica",
        tests=("tests/test_config.py::test_idempotence_follows_acks",),
    ),
    Mutant(
        file="pykafka4/option_fields.py",
        old='    return value if isinstance(value, bool) or not hasattr(type(value), "__index__") else int(operator.index(value))',
        new="    return value",
        breaks="numbers of numpy and enums are refused",
        tests=("tests/test_config.py::test_numbers_of_other_types_are_taken_as_plain_ones",),
    ),
    Mutant(
        file="pykafka4/option_fields.py",
        old="    return str.__str__(value) if isinstance(value, str) else value",
        new="    return value",
        breaks="an enum stays an enum in the configuration",
        tests=("tests/test_config.py::test_the_longest_text_and_subclasses_of_str_are_taken_as_plain_text",),
    ),
    Mutant(
        file="pykafka4/option_fields.py",
        old='            raise ConfigError(f"{attribute.name} is {what}: must be a non-empty string or None")\n',
        new='            raise bad(attribute.name, value, "must be a non-empty string or None")\n',
        breaks="a key in an option of a wrong type is shown",
        tests=("tests/net/test_tls.py::test_a_certificate_of_a_wrong_type_is_not_shown",),
    ),
)
