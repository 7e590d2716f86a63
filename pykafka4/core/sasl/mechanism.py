"""Declares the interface of mechanisms, and keeps the state of an exchange.

Invariant: only DONE is success, each message of a broker leads to an answer, to DONE or to an error, and no error repeats a secret.

An error is made outside an `except` block whose exception may hold a secret: `from None` hides a context, but keeps it. Each
authentication makes a new mechanism, which serves one exchange.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import ClassVar, Final, Protocol

from pykafka4.core import Transitions
from pykafka4.errors import AuthenticationError
from pykafka4.errors.codes import BY_NAME, ErrorCode
from pykafka4.errors.peer_text import filtered

__all__ = ["Exchange", "Mechanism", "Step", "failed"]

FAILED: Final = BY_NAME["SASL_AUTHENTICATION_FAILED"]
OUT_OF_ORDER: Final = BY_NAME["ILLEGAL_SASL_STATE"]


class Mechanism(Protocol):
    """One exchange with one broker. An error has only the reason: the connection adds the address and the mechanism."""

    @property
    def name(self) -> str:
        """The name of the mechanism in SaslHandshake."""

    def first(self) -> bytes:
        """The client's first message."""

    def slow(self, challenge: bytes) -> bool:
        """Whether `next` with this message may take too long for the loop. Calls of `next` must not overlap."""

    def next(self, challenge: bytes) -> bytes | None:
        """The answer to the broker's message; None if the exchange is complete, including the broker's proof if the mechanism has one."""

    def refused(self, message: str | None) -> AuthenticationError:
        """The error for a broker that answered with an error code and `message`."""

    def secrets(self) -> tuple[str, ...]:
        """The secrets of this exchange, which no error message may repeat."""

    @property
    def username(self) -> str:
        """The SASL user name, which error messages do not show; empty if there is none."""


class Step(Enum):
    NEW = "new"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


TABLE = Transitions[Step](
    "mechanism",
    {
        Step.NEW: {Step.WAITING, Step.FAILED},
        Step.WAITING: {Step.DONE, Step.FAILED},
        Step.DONE: {Step.FAILED},
        Step.FAILED: set(),
    },
    {
        Step.NEW: "nothing has been sent",
        Step.WAITING: "the broker's next message is awaited",
        Step.DONE: "complete, including the broker's proof if the mechanism has one",
        Step.FAILED: "refused by either side; the connection has to be closed",
    },
)


def failed(reason: str) -> AuthenticationError:
    """The error SASL_AUTHENTICATION_FAILED with this reason."""
    return _error(FAILED, reason)


def _error(code: ErrorCode, reason: str) -> AuthenticationError:
    error = AuthenticationError(reason)
    error.code, error.certain = code, True
    return error


class Exchange(ABC):
    """The common base of mechanisms: states and limits."""

    name: str
    longest: ClassVar[int] = 8 * 1024  # the limit of a broker's message, in bytes

    def __init__(self) -> None:
        self._step = Step.NEW

    @abstractmethod
    def _opening(self) -> bytes:
        """The client's first message."""

    @abstractmethod
    def _answer(self, challenge: bytes) -> bytes | None:
        """The answer to the broker's message, as `next` returns it."""

    @abstractmethod
    def secrets(self) -> tuple[str, ...]: ...

    @property
    def username(self) -> str:
        return ""

    @abstractmethod
    def _advice(self) -> str:
        """The part of the error message that says what to check after a refusal."""

    @property
    def step(self) -> Step:
        return self._step

    def first(self) -> bytes:
        if self._step is not Step.NEW:
            raise self._out_of_order("the exchange was begun twice; each authentication needs a new mechanism")
        try:
            message = self._opening()
        except BaseException:
            self._move(Step.FAILED)
            raise
        self._move(Step.WAITING)
        return message

    def slow(self, challenge: bytes) -> bool:
        return False

    def next(self, challenge: bytes) -> bytes | None:
        if self._step is not Step.WAITING:
            raise self._out_of_order(f"the broker sent a message to an exchange that is {self._step.value}; close the connection")
        try:
            if len(challenge) > self.longest:
                raise failed(
                    f"the broker's message has {len(challenge):,} bytes, more than {self.longest:,}; check the program that listens there"
                )
            answer = self._answer(challenge)
        except BaseException:
            self._move(Step.FAILED)
            raise
        self._move(Step.DONE if answer is None else Step.WAITING)
        return answer

    def refused(self, message: str | None) -> AuthenticationError:
        self._move(Step.FAILED)
        said = self._quoted(message) if message else "without a reason"
        return failed(f"the broker refused the credentials: {said}; {self._advice()}")

    def _quoted(self, words: str) -> str:
        return f"'{filtered(words, self.secrets(), self.username)}'"

    def _out_of_order(self, reason: str) -> AuthenticationError:
        self._move(Step.FAILED)
        return _error(OUT_OF_ORDER, reason)

    def _move(self, to: Step) -> None:
        if to is not self._step:
            self._step = TABLE.move(self._step, to)
