"""Authentication. Rule: a SASL exchange moves one step with each response or finished job, and every end of it is success or one error.

The steps that may take long are jobs for a helper thread: asking the application for credentials, and deriving keys. `step` returns what
comes next: a job, a message for the broker, or None when both sides have proved what they had to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pykafka4.core.sasl.mechanism import Mechanism
from pykafka4.error_table import BY_NAME, error_code
from pykafka4.errors import AuthenticationError, KafkaError, caused_by
from pykafka4.wire.protocol.messages_sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

__all__ = ["Authentication", "Step"]

Step: TypeAlias = Callable[[], Any] | SaslHandshakeRequest | SaslAuthenticateRequest | None

UNSUPPORTED: Final = BY_NAME["UNSUPPORTED_SASL_MECHANISM"].code
SHOWN: Final = 500  # characters of a broker's message


class Authentication:
    """One exchange on one connection."""

    __slots__ = ("_address", "_mechanism", "_name", "_prepare", "is_talking", "lifetime")

    def __init__(self, name: str, address: str, prepare: Callable[[], Mechanism]) -> None:
        """`prepare` makes a mechanism with the current credentials; it may block. `address` and `name` are for messages."""
        self._name, self._address, self._prepare = name, address, prepare
        self._mechanism: Mechanism | None = None
        self.is_talking = False  # whether the first message has been sent
        self.lifetime = 0.0  # seconds until the broker wants to have it repeated; 0: never

    @property
    def waits_for(self) -> str:
        """What has not happened yet, for the message of a time-out."""
        if self._mechanism is None:
            return f"SASL {self._name}: the application's callable for the credentials has not returned"
        return f"SASL {self._name}: no response"

    def begin(self) -> Mechanism:
        """The first job."""
        return self._prepare()

    def step(self, result: Any) -> Step:
        """The next step, after a job's result or exception, or a response. Raises AuthenticationError."""
        if isinstance(result, SaslHandshakeResponse):
            return self._shaken(result)
        if isinstance(result, SaslAuthenticateResponse):
            return self._answered(result)
        if isinstance(result, BaseException):
            raise self._failed(result)
        if result is None:
            return None
        if isinstance(result, bytes):
            return SaslAuthenticateRequest(auth_bytes=result)
        self._mechanism, self.is_talking = result, True
        return SaslHandshakeRequest(mechanism=self._name)

    def _shaken(self, response: SaslHandshakeResponse) -> Step:
        if response.error_code == UNSUPPORTED:
            offered = ", ".join(sorted(response.mechanisms)) or "none"
            raise self._error(f"the broker does not support this mechanism on this listener; it offers {offered[:SHOWN]}")
        if response.error_code:
            raise self._error(error_code(response.error_code).name)
        assert self._mechanism is not None
        try:
            return SaslAuthenticateRequest(auth_bytes=self._mechanism.first())
        except KafkaError as error:
            raise self._failed(error) from None

    def _answered(self, response: SaslAuthenticateResponse) -> Step:
        mechanism = self._mechanism
        assert mechanism is not None
        if response.error_code:
            raise self._failed(mechanism.refused(response.error_message))
        self.lifetime = max(0, response.session_lifetime_ms) / 1000
        challenge = response.auth_bytes
        if mechanism.slow(challenge):
            return lambda: mechanism.next(challenge)
        try:
            answer = mechanism.next(challenge)
        except KafkaError as error:
            raise self._failed(error) from None
        return None if answer is None else SaslAuthenticateRequest(auth_bytes=answer)

    def _failed(self, error: BaseException) -> AuthenticationError:
        """A mechanism or the application's callable raised `error`, whose text is not repeated unless it is one of ours."""
        if isinstance(error, KafkaError):
            reason = self._error(str(error))
            reason.code = error.code
            return reason
        return caused_by(self._error(f"the application's callable for the credentials raised {type(error).__name__}"), error)

    def _error(self, why: str) -> AuthenticationError:
        return AuthenticationError(f"{self._address}: SASL {self._name}: {why}")
