"""Small bugs of what producers can do beside the plain way to send; see `producer_mutants`."""

from __future__ import annotations

from typing import Any

import pytest
from handle_mutants import Told, sending
from schedules import Hunt, Patch, around

from pykafka4.error_table import Written
from pykafka4.errors import DeliveryFailed, KafkaError
from pykafka4.producer.hooks import HookCalls

__all__ = ["MUTANTS"]


def doubt_what_was_dropped(patch: pytest.MonkeyPatch) -> None:
    """A dropped record fails as maybe written."""

    def doubtful(error: DeliveryFailed) -> Exception:
        return DeliveryFailed(error.topic, error.partition, str(error.code), Written.MAYBE, error.record, error.cause)

    sending(patch, lambda original, *args, **options: Told(original(*args, **options), doubtful))


def forget_what_was_dropped(patch: pytest.MonkeyPatch) -> None:
    """The account does not count dropped records."""
    sending(patch, lambda original, *args, **options: original(*args, **options), take_dropped=lambda real: list)


def announce_nothing(patch: pytest.MonkeyPatch) -> None:
    """No hook hears of accepted records."""
    around(patch, HookCalls, "on_enqueue", lambda original, self, delivery: None)


def end_without_telling(patch: pytest.MonkeyPatch) -> None:
    """No hook hears of the end of a batch."""
    around(patch, HookCalls, "watch", lambda original, self, batch: None)


def raise_out_of_many(patch: pytest.MonkeyPatch) -> None:
    """`send_many` fails while the producer is open."""

    def fail(*args: Any, **options: Any) -> Any:
        raise KafkaError("injected")

    sending(patch, lambda original, *args, **options: original(*args, **options), send_many=lambda real: fail)


DROPPING = {"rate_limits": {"*": (1, 50)}, "on_rate_limit": "drop"}
HOOKED = {"hooked": True, "crash": "", "give_up": False, "ending": "close", "neighbours": 0}

MUTANTS: dict[Patch, Hunt] = {
    doubt_what_was_dropped: Hunt({"what was dropped is told"}, DROPPING, says=" was dropped as "),
    forget_what_was_dropped: Hunt({"what was dropped is told"}, DROPPING, says=" count as dropped, "),
    announce_nothing: Hunt({"hooks are told"}, says=" records were announced, ", plan=HOOKED),
    end_without_telling: Hunt({"hooks are told"}, says=" records was told, ", plan=HOOKED),
    raise_out_of_many: Hunt({"the producer goes on"}, says="send_many raised ", plan={"many": True, "crash": "", "give_up": False}),
}
