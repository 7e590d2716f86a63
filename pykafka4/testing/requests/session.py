"""Executes the requests of one connection, for a broker. Invariant: requests are executed one at a time, and responses are sent in order.

Bytes may arrive in pieces of any size. Requests that arrived before the client disconnected may still be executed (`zombies`), because a
frozen broker that resumes finds such requests in the buffers of lost connections.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

from pykafka4.errors import DecodeError, KafkaError
from pykafka4.errors.codes import BY_NAME
from pykafka4.testing.broker import Broker
from pykafka4.testing.cluster.cluster import Cluster
from pykafka4.testing.faults.controls import Fault, Injected, When
from pykafka4.testing.faults.names import NAMES
from pykafka4.wire.protocol.frame import decode_request, encode_response
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, ApiVersionsResponse

__all__ = ["LATER", "NO_ANSWER", "Call", "Front", "Handler", "Session", "code"]

log = logging.getLogger(__name__)
MAX_REQUEST: Final = 100 * 1024 * 1024  # socket.request.max.bytes


class NoMessage(Enum):
    """The results of a handler that are not messages."""

    LATER = "`call.answer` will be called later"
    NO_ANSWER = "the client expects no response: Produce with acks=0"


LATER, NO_ANSWER = NoMessage


class Front(Protocol):
    """Carries bytes to the client: a simulated network, or a socket."""

    def send(self, data: bytes) -> None:
        """Send bytes to the client, in order."""

    def close(self) -> None:
        """Close the connection after all bytes are sent."""


class Call:
    """One request during its execution."""

    __slots__ = ("broker", "client_id", "cluster", "correlation_id", "finished", "key", "message", "name", "session", "version")

    def __init__(self, session: Session, key: int, version: int, correlation_id: int, client_id: str | None, message: Any) -> None:
        self.session, self.cluster, self.broker = session, session.cluster, session.broker
        self.key, self.version, self.correlation_id = key, version, correlation_id
        self.client_id, self.message = client_id or "", message
        self.name = type(message).__name__.removesuffix("Request")  # `Produce`, `Fetch`, …
        self.finished = False

    def ordered_error(self, topic: str | None = None, partition: int | None = None, when: When = When.BEFORE) -> str | None:
        """Count down the error that a test has ordered for this part of the response, and return it; None if there is none."""
        return self.cluster.controls.use_error(self.key, topic, partition, when)

    def denied(self, resource: str, name: str, operation: str) -> str | None:
        """The error if the operation is denied, otherwise None."""
        return self.cluster.controls.denied(resource, name, operation)

    def answer(self, response: Any) -> None:
        """Send `response`, unless it is NO_ANSWER, then serve the next request; or apply a fault. Raises RuntimeError on a second call."""
        if self.finished:
            raise RuntimeError(f"{self.name} {self.correlation_id} was answered twice")
        self.finished = True
        self.session.answered(self, response)


Handler = Callable[[Call], Any]


def code(error: str | None) -> int:
    return 0 if error is None else BY_NAME[error].code


class Session:
    __slots__ = (
        *("_arrived", "_busy", "_execute", "_fault", "_pieces", "_proceeding"),
        *("abandoned", "broker", "cluster", "dead", "front", "open"),
    )

    def __init__(self, cluster: Cluster, broker: Broker, front: Front, execute: Handler) -> None:
        self.cluster, self.broker, self.front, self._execute = cluster, broker, front, execute
        self.open = True  # the client still receives bytes
        self.abandoned = False  # the client has disconnected; its requests may still be executed
        self.dead = False  # the broker has closed the connection: no more requests are executed
        self._busy = self._proceeding = False
        self._pieces = bytearray()
        self._arrived: deque[bytes] = deque()
        self._fault: Injected | None = None

    # ---- from the client

    def receive(self, data: bytes) -> None:
        if not self.open:
            return None
        self._pieces += data
        while len(self._pieces) >= 4:
            (size,) = struct.unpack_from(">i", self._pieces)
            if not 0 <= size <= MAX_REQUEST:
                return self._refuse(b"", f"its size is {size} bytes, but must be from 0 to {MAX_REQUEST}")
            if len(self._pieces) < 4 + size:
                break
            self._arrived.append(bytes(self._pieces[4 : 4 + size]))
            del self._pieces[: 4 + size]
        return self.proceed()

    def lost(self) -> None:
        self.abandoned = True
        if self.open:
            self.open = False
            zombies = self.cluster.zombies
            if not (zombies > 0 and self.cluster.random.random() < zombies):
                self._arrived.clear()
            self._retire()

    def close(self) -> None:
        self.dead = True
        self._arrived.clear()
        self.broker.sessions.pop(self, None)
        if self.open:
            self.open = False
            self.front.close()

    def _retire(self) -> None:
        if not self.open and not self._arrived and not self._busy:
            self.broker.sessions.pop(self, None)

    # ---- executing

    def proceed(self) -> None:
        if self._proceeding:  # called by the response to a request that the loop below executes: that loop continues
            return
        self._proceeding = True
        try:
            while self._arrived and not self._busy and self.broker.running(self.cluster.timeline.now):
                self._busy = True
                self._begin(self._arrived.popleft())
        finally:
            self._proceeding = False
        self._retire()

    def _begin(self, frame: bytes) -> None:
        call = self._decode(frame)
        if call is None:
            return
        self._fault = self.cluster.controls.use_fault(call.key, self.broker.node)
        self.cluster.seen(call, self._fault)
        fault = self._fault.fault if self._fault else None
        pause = self.broker.slowness + (self._fault.seconds if self._fault and fault is Fault.DELAY else 0.0)
        if fault is Fault.DROP_BEFORE:
            self.close()
        elif pause > 0:
            self.cluster.timeline.after(pause, lambda: self._run(call))
        else:
            self._run(call)

    def _decode(self, frame: bytes) -> Call | None:
        """None if the broker refuses the request. Extra bytes are ignored, because librdkafka sends some."""
        if len(frame) < 8:
            self._refuse(frame, f"a frame of size {len(frame)} is too small for a request header")
            return None
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        low, high = self.cluster.versions.get(key, (0, -1))
        if not low <= version <= high:
            self._unsupported(frame, key, correlation_id)
            return None
        try:
            header, message = decode_request(frame, whole=False)
        except (DecodeError, KafkaError) as error:
            self._refuse(frame, str(error))
            return None
        return Call(self, key, version, correlation_id, header.client_id, message)

    def _refuse(self, frame: bytes, reason: str) -> None:
        """Close the connection, as brokers do."""
        key, version, _, length = struct.unpack_from(">hhih", frame.ljust(10, b"\xff"))
        what = f"{NAMES.get(key, f'API {key}')} v{version}" if len(frame) >= 10 else "a request"
        client = frame[10 : 10 + min(max(length, 0), 100)].decode(errors="replace")
        log.warning("broker %d closes a connection: %s of client %r cannot be decoded: %s", self.broker.node, what, client, reason)
        self.close()

    def _unsupported(self, frame: bytes, key: int, correlation_id: int) -> None:
        if key != ApiVersionsRequest.api_key:  # a response in an unknown version has no defined format
            spoken = "versions {} to {}".format(*self.cluster.versions[key]) if key in self.cluster.versions else "no version of it"
            return self._refuse(frame, f"the model of Kafka {self.cluster.release} supports {spoken}")
        low, high = self.cluster.versions[key]
        listed = [ApiVersionsResponse.Api(api_key=key, min_version=low, max_version=high)] if high >= 3 else []
        refusal = ApiVersionsResponse(error_code=code("UNSUPPORTED_VERSION"), api_keys=listed)
        self._busy = False
        return self._send(b"".join(encode_response(refusal, 0, correlation_id)))

    def _run(self, call: Call) -> None:
        if self.dead or not self.broker.up:
            return
        if not self.broker.running(self.cluster.timeline.now):  # the broker froze meanwhile: continue when it resumes
            self.cluster.timeline.at(self.broker.frozen_until, lambda: self._run(call))
            return
        response = self._execute(call)
        if response is not LATER:
            call.answer(response)

    # ---- to the client

    def answered(self, call: Call, response: Any) -> None:
        fault, self._fault = self._fault, None
        mute = self.cluster.use_throttle(call)
        data = b"" if response is NO_ANSWER else self._encode(call, response, mute)
        if fault is None or fault.fault in (Fault.DELAY, Fault.DROP_BEFORE):
            self._reply(data, mute)
        else:
            REACTIONS[fault.fault](self, data, fault.seconds)

    def _encode(self, call: Call, response: Any, mute: float) -> bytes:
        if mute > 0 and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = round(mute * 1000)
        return b"".join(encode_response(response, call.version, call.correlation_id))

    def _reply(self, data: bytes, mute: float = 0.0) -> None:
        self._send(data)
        if mute > 0:
            self.cluster.timeline.after(mute, self._free)
        else:
            self._free()

    def _free(self) -> None:
        self._busy = False
        self.proceed()

    def _send(self, data: bytes) -> None:
        if self.open and data:
            self.front.send(data)

    def _drop_midway(self, data: bytes) -> None:
        self._send(data[: max(1, len(data) // 2)])
        self.close()


REACTIONS: Final[dict[Fault, Callable[[Session, bytes, float], object]]] = {
    Fault.DROP_AFTER: lambda session, data, seconds: session.close(),
    Fault.DROP_MIDWAY: lambda session, data, seconds: session._drop_midway(data),
    Fault.SWALLOW: lambda session, data, seconds: None,  # the connection stays open and silent
    Fault.DELAY_REPLY: lambda session, data, seconds: session.cluster.timeline.after(seconds, lambda: session._reply(data)),
    Fault.GARBAGE: lambda session, data, seconds: session._reply(data[:8] + b"\xff" * (len(data) - 8)),
}
