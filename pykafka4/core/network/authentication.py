"""Advances the SASL exchange of one connection by one step with each response or finished job.

Slow steps are jobs (`Threads.CREDENTIALS`): the application's callable for credentials, a KDC's ticket, the derivation of keys. `step`
returns the next step: a job, a message for the broker, or None when the mechanism's exchange is complete. `Connection` begins an exchange
after ApiVersions, and the next one when most of the `lifetime` has passed.

An error has no traceback, cause or context: the frames of an exchange hold credentials, an exception of a callable may repeat them, and an
error may be kept for days.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pykafka4.core.network.secret_filter import SecretFilter
from pykafka4.core.sasl.mechanism import Mechanism
from pykafka4.errors import AuthenticationError, ConfigError, KafkaError
from pykafka4.errors.codes import BY_NAME, error_code
from pykafka4.errors.frames import place_of
from pykafka4.errors.peer_text import visible
from pykafka4.wire.protocol.messages_sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

__all__ = ["Authentication", "Step"]

Step: TypeAlias = Callable[[], Any] | SaslHandshakeRequest | SaslAuthenticateRequest | None

UNSUPPORTED: Final = BY_NAME["UNSUPPORTED_SASL_MECHANISM"].code
REFUSED: Final = BY_NAME["SASL_AUTHENTICATION_FAILED"].code
CALLABLE: Final = "the application's callable for the credentials"
KERBEROS: Final = {"GSSAPI": "the Kerberos library"}  # mechanism -> the code that its jobs call, if not CALLABLE
SHOWN_MECHANISMS: Final = 500  # characters of a broker's list of mechanisms that an error shows


class Authentication:
    __slots__ = ("_address", "_awaited", "_mechanism", "_name", "_prepare", "_secret_filter", "is_talking", "lifetime")

    def __init__(self, name: str, address: str, prepare: Callable[[], Mechanism], secret_filter: SecretFilter) -> None:
        """`prepare` makes a mechanism with the current credentials; it may block. `secret_filter` learns the credentials."""
        self._secret_filter = secret_filter
        self._name, self._address, self._prepare = name, address, prepare
        self._mechanism: Mechanism | None = None
        self._awaited = f"{KERBEROS.get(name, CALLABLE)} has not returned"
        self.is_talking = False  # whether the first message has been sent
        self.lifetime = 0.0  # seconds until the broker demands another authentication; 0: never (KIP-368)

    def begin(self) -> Mechanism:
        return self._prepare()

    def step(self, result: Any) -> Step:
        """Return the next step after a job's result or exception, or a response. Raises AuthenticationError if the exchange has failed."""
        failure: BaseException
        try:
            if not isinstance(result, BaseException):
                return self._next(result)
            failure = result
        except Exception as error:  # any exception ends this exchange, not the loop
            failure = error
        raise self._explained(failure)

    def timed_out(self) -> AuthenticationError:
        """Return an error that is not certain: a timeout is not a refusal."""
        return self._error(f"{self._awaited} in time (socket_connection_setup_timeout_ms)", certain=False)

    def cut_off(self, reason: KafkaError) -> AuthenticationError:
        """Return the error for a connection lost during the exchange: only a guess, as a broker that shuts down also closes connections."""
        why = str(reason).removeprefix(f"{self._address}: ")
        return self._error(f"the connection was lost ({why}); some brokers refuse credentials in this way", certain=False)

    def _next(self, result: Any) -> Step:
        if isinstance(result, SaslHandshakeResponse):
            return self._shaken(result)
        if isinstance(result, SaslAuthenticateResponse):
            return self._answered(result)
        if self._mechanism is None:
            self._mechanism, self.is_talking = result, True
            self._secret_filter.learn(result.secrets(), result.username)
            self._awaited = "no response to SaslHandshake"
            return SaslHandshakeRequest(mechanism=self._name)
        return self._message(result)

    def _message(self, content: bytes | None) -> Step:
        self._awaited = "no response to SaslAuthenticate"
        return None if content is None else SaslAuthenticateRequest(auth_bytes=content)

    def _shaken(self, response: SaslHandshakeResponse) -> Step:
        if response.error_code == UNSUPPORTED:
            offered = visible(", ".join(sorted(response.mechanisms)), SHOWN_MECHANISMS) or "none"
            raise AuthenticationError(f"the broker does not support this mechanism on this listener; it offers {offered}")
        if response.error_code:
            raise _coded(response.error_code, "the broker refuses to authenticate this client; check security_protocol and the port")
        assert self._mechanism is not None
        return self._message(self._mechanism.first())

    def _answered(self, response: SaslAuthenticateResponse) -> Step:
        mechanism = self._mechanism
        assert mechanism is not None
        if response.error_code:
            refusal = mechanism.refused(response.error_message)
            refusal.is_of_client = True
            raise refusal if response.error_code == REFUSED else _coded(response.error_code, str(refusal))
        self.lifetime = max(0, response.session_lifetime_ms) / 1000
        challenge = response.auth_bytes
        if mechanism.slow(challenge):
            self._awaited = KERBEROS[self._name] + " has not returned" if self._name in KERBEROS else "the keys have not been derived"
            return lambda: mechanism.next(challenge)
        return self._message(mechanism.next(challenge))

    def _explained(self, error: BaseException) -> AuthenticationError:
        """Show only the type and place of a foreign exception, without `__cause__`: the text of the exception may contain a secret."""
        if isinstance(error, AuthenticationError):
            reason = self._error(str(error), certain=error.certain)
            reason.code, reason.is_of_client = error.code, error.is_of_client
            return reason
        if isinstance(error, KafkaError):
            return self._error(str(error), certain=isinstance(error, ConfigError))
        who = KERBEROS.get(self._name, CALLABLE) if self._mechanism is None else "the exchange"
        return self._error(f"{who} raised {type(error).__name__}{place_of(error)}", certain=False)

    def _error(self, why: str, *, certain: bool) -> AuthenticationError:
        error = AuthenticationError(f"{self._address}: SASL {self._name}: {why}")
        error.certain, error.is_local = certain, self._mechanism is None
        return error


def _coded(code: int, reason: str) -> AuthenticationError:
    row = error_code(code)
    error = AuthenticationError(f"{row.name}: {reason}")
    error.code, error.certain = row, not row.retriable
    return error
