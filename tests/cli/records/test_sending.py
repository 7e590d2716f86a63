"""Each record that was accepted is known to the outcomes, however the sending of its block ends."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.cli.records.inputs import STDIN, Block
from pykafka4.cli.records.outcomes import Outcomes
from pykafka4.cli.records.sending import Send, send_plain, send_rows
from pykafka4.errors import KafkaError

FIRST, END = b'"refused"', b'{"value":"end"}'


class Ends:
    """A producer that accepts records until one ends the command."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def send(self, topic: str, value: Any, **how: Any) -> object:
        if value == b"end":
            raise self._error
        return object()

    def send_many(self, topic: str, values: list[bytes], **how: Any) -> list[object]:
        self._error.accepted = [object()] * values.index(END)  # type: ignore[attr-defined]
        raise self._error


@pytest.mark.parametrize("error", [KafkaError("gone"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
@pytest.mark.parametrize("send", [send_rows("t"), send_plain("t", None, None, null=False)], ids=["rows", "plain"])
def test_what_was_accepted_before_the_command_ended_is_counted(send: Send, error: BaseException) -> None:
    outcomes, block = Outcomes(lambda text: None), Block(STDIN, 1, [b'{"value":"a"}', b'{"value":"b"}', END, b'{"value":"c"}'], 50)
    producer: Any = Ends(error)
    with pytest.raises(type(error)):
        send(producer, block, outcomes)
    assert (outcomes.sent, outcomes.open, outcomes.failed) == (2, 2, 0)


def test_a_row_that_is_refused_has_its_own_number() -> None:
    told: list[str] = []
    outcomes, producer = Outcomes(told.append), Ends(KafkaError("gone"))
    with pytest.raises(KafkaError):
        send_rows("t")(producer, Block(STDIN, 1, [b'{"value":"a"}', FIRST, b"[" * 100_000, b'{"value":"b"}', END], 50), outcomes)  # type: ignore[arg-type]
    assert [text.partition(":")[0] for text in told] == ["line 2", "line 3"]
    assert (outcomes.sent, outcomes.failed) == (2, 2)
