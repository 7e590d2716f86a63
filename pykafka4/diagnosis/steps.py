"""Runs the steps of a diagnosis in order of cause. Invariant: no step begins after the deadline, and each step has its own time limit.

A step whose needs are missing is not carried out, and its only finding says so: further findings would be effects of earlier faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from pykafka4.diagnosis.access import look_at_logins, look_at_names, look_at_ports, look_at_tls
from pykafka4.diagnosis.case import Case
from pykafka4.diagnosis.cluster import look_at_brokers, look_at_controller, look_at_listeners
from pykafka4.diagnosis.groups import look_at_groups
from pykafka4.diagnosis.partitions import look_at_partitions
from pykafka4.diagnosis.values import Finding, Outcome
from pykafka4.errors import ConfigError, KafkaError
from pykafka4.native import monotonic

__all__ = ["NOT_LOOKED", "STEPS", "Step", "diagnose"]


@attrs.frozen
class Step:
    """A step, and the seconds that it may take.

    `needs` and `of` name attributes of the case. If the attribute of `of` is empty, there is nothing to check; if the attribute of `needs`
    is empty, the step is not possible.
    """

    name: str
    look: Callable[[Case, float], Iterator[Finding]]
    seconds: float
    needs: str = "servers"
    of: str = "servers"


STEPS: Final = (
    Step("names", look_at_names, 3.0),
    Step("ports", look_at_ports, 3.0, "resolved"),
    Step("tls", look_at_tls, 6.0, "reachable", of="context"),
    Step("login", look_at_logins, 6.0, "reachable"),
    Step("brokers", look_at_brokers, 4.0, "login_servers"),
    Step("listeners", look_at_listeners, 12.0, "cluster"),
    Step("controller", look_at_controller, 4.0, "cluster"),
    Step("topics", look_at_partitions, 6.0, "cluster"),
    Step("groups", look_at_groups, 6.0, "cluster", of="groups"),
)
NOT_LOOKED: Final = "not checked"
BEFORE: Final = "correct the faults above, then run the diagnosis again"
LATE: Final = "correct the faults above, or give more time"
LEAST_S: Final = 0.2  # a check with less time finds nothing


def diagnose(
    options: Mapping[str, Any], *, topics: Sequence[str] = (), groups: Sequence[str] = (), timeout: float = 30.0
) -> Iterator[Finding]:
    """Yield each finding for a client with `options` (the options of `Client`) as soon as it is known, within `timeout` seconds.

    With `topics`, the diagnosis covers only these topics and this user's rights on them; otherwise all topics that the user may describe.
    With `groups`, it covers their members and lag, and this user's rights on them. The diagnosis writes nothing, joins no group and creates
    no topic, but brokers before Kafka 0.11 may create a missing one of `topics`. Raises ConfigError for an invalid option.
    """
    case, until = Case(dict(options), topics, groups), monotonic() + timeout
    try:
        for number, step in enumerate(STEPS):
            if not getattr(case, step.of):
                continue
            left = until - monotonic()
            share = left / 2 if number < len(STEPS) - 1 else left  # the other half is for the steps that follow
            if not getattr(case, step.needs):
                yield Finding(step.name, "", Outcome.UNSEEN, NOT_LOOKED, way_out=BEFORE)
            elif left < LEAST_S:
                yield Finding(step.name, "", Outcome.WRONG, "comes too late, as do the steps after it", f"{timeout:g} s have passed", LATE)
                return
            else:
                yield from _carried_out(step, case, min(step.seconds, share))
    finally:
        case.close()


def _carried_out(step: Step, case: Case, seconds: float) -> Iterator[Finding]:
    try:
        yield from step.look(case, seconds)
    except ConfigError:
        raise
    except KafkaError as error:
        yield Finding(step.name, "", Outcome.WRONG, "cannot be carried out", str(error))
