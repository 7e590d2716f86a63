"""A broker's side of one connection. Rule: requests are executed one at a time and answered in order, as Kafka does it.

Bytes come in any pieces. What has arrived when the client goes away may still be executed (`zombies`), as a frozen broker does when it
wakes up and finds requests in the buffers of dead connections.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from pykafka4.error_table import BY_NAME
from pykafka4.errors import DecodeError, KafkaError
from pykafka4.testing.faults.controls import Fault, Injected
from pykafka4.testing.faults.names import NAMES
from pykafka4.wire.frame import decode_request, encode_response
from pykafka4.wire.messages_cluster import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from pykafka4.testing.model import Broker, ModelCluster

__all__ = ["LATER", "NO_ANSWER", "Call", "Front", "Handler", "Session", "code"]

log = logging.getLogger(__name__)
MAX_REQUEST: Final = 100 * 1024 * 1024  # socket.request.max.bytes


class _Word:
    """A handler's answer that is not a message."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


LATER: Final = _Word("LATER")  # `call.answer` will be called some time
NO_ANSWER: Final = _Word("NO_ANSWER")  # Produce with acks=0


class Front(Protocol):
    """What carries bytes to the client: a simulated network, or a socket."""

    def send(self, data: bytes) -> None:
        """Bytes for the client, in order."""

    def close(self) -> None:
        """The broker closes the connection, after what it sent."""


class Call:
    """One request being executed."""

    __slots__ = ("client_id", "cluster", "correlation_id", "finished", "key", "message", "name", "session", "version")

    def __init__(self, session: Session, key: int, version: int, correlation_id: int, client_id: str | None, message: Any) -> None:
        self.session, self.cluster = session, session.cluster
        self.key, self.version, self.correlation_id = key, version, correlation_id
        self.client_id, self.message = client_id or "", message
        self.name = type(message).__name__.removesuffix("Request")  # `Produce`, `Fetch`, …
        self.finished = False

    @property
    def broker(self) -> Broker:
        """Who executes it."""
        return self.session.broker

    def answer(self, response: Any) -> None:
        """Send `response` (or NO_ANSWER) and go on with the next request; a second answer is a bug of the model."""
        if self.finished:
            raise RuntimeError(f"{self.name} {self.correlation_id} was answered twice")
        self.finished = True
        self.session.answered(self, response)


Handler = Callable[[Call], Any]


def code(name: str) -> int:
    """The number of an error's name."""
    return BY_NAME[name].code


class Session:
    """One client's connection to one broker."""

    __slots__ = ("_arrived", "_busy", "_fault", "_pieces", "broker", "cluster", "dead", "forsaken", "front", "number", "open")

    def __init__(self, cluster: ModelCluster, broker: Broker, front: Front, number: int) -> None:
        self.cluster, self.broker, self.front, self.number = cluster, broker, front, number
        self.open = True  # the client can still hear us
        self.forsaken = False  # the client waits for nothing here any more, though bytes of it may still arrive
        self.dead = False  # the broker gave it up: nothing of it is executed any more
        self._busy = False
        self._pieces = bytearray()
        self._arrived: deque[bytes] = deque()
        self._fault: Injected | None = None

    # ---- from the client

    def receive(self, data: bytes) -> None:
        """The next bytes, in any pieces."""
        if not self.open:
            return None
        self._pieces += data
        while len(self._pieces) >= 4:
            (size,) = struct.unpack_from(">i", self._pieces)
            if not 0 <= size <= MAX_REQUEST:
                return self._refuse(b"", f"its size is {size}; from 0 to {MAX_REQUEST} bytes are allowed")
            if len(self._pieces) < 4 + size:
                break
            self._arrived.append(bytes(self._pieces[4 : 4 + size]))
            del self._pieces[: 4 + size]
        return self.proceed()

    def lost(self) -> None:
        """The client is gone."""
        self.forsaken = True
        if self.open:
            self.open = False
            if not self.cluster.chance(self.cluster.zombies):
                self._arrived.clear()
            self._retire()

    def close(self) -> None:
        """The broker ends the connection; what arrived and was not executed never will be."""
        self.dead = True
        self._arrived.clear()
        self.broker.sessions.discard(self)
        if self.open:
            self.open = False
            self.front.close()

    def _retire(self) -> None:
        if not self.open and not self._arrived and not self._busy:
            self.broker.sessions.discard(self)

    # ---- executing

    def proceed(self) -> None:
        """Execute what has arrived, until something takes its time."""
        while self._arrived and not self._busy and self.broker.running(self.cluster.timeline.now):
            self._busy = True
            self._begin(self._arrived.popleft())
        self._retire()

    def _begin(self, frame: bytes) -> None:
        call = self._decode(frame)
        if call is None:
            return None
        self._fault = self.cluster.controls.fault_for(call.key, self.broker.node)
        self.cluster.seen(call, self._fault)
        fault = self._fault.fault if self._fault else None
        if fault is Fault.DROP_BEFORE:
            return self.close()
        pause = self.broker.slowness + (self._fault.seconds if self._fault and fault is Fault.DELAY else 0.0)
        if pause > 0:
            self.cluster.timeline.after(pause, lambda: self._execute(call))
        else:
            self._execute(call)
        return None

    def _decode(self, frame: bytes) -> Call | None:
        """The request in `frame`; bytes behind it are ignored, as brokers do (librdkafka sends some: its issue 5049)."""
        if len(frame) < 8:
            self._refuse(frame, f"it has {len(frame)} bytes, which is no header")
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
        """Close the connection, as brokers do when they cannot execute a request, and say why: the client cannot know."""
        key, version, _, length = struct.unpack_from(">hhih", frame.ljust(10, b"\xff"))
        what = f"{NAMES.get(key, f'API {key}')} v{version}" if len(frame) >= 10 else "a request"
        client = frame[10 : 10 + min(max(length, 0), 100)].decode(errors="replace")
        log.warning("broker %d closes a connection: %s of client %r cannot be decoded: %s", self.broker.node, what, client, reason)
        self.close()

    def _unsupported(self, frame: bytes, key: int, correlation_id: int) -> None:
        if key != ApiVersionsRequest.api_key:  # nobody can know how such an answer would look
            spoken = "versions {} to {}".format(*self.cluster.versions[key]) if key in self.cluster.versions else "no version of it"
            return self._refuse(frame, f"Kafka {self.cluster.release} as the model plays it has {spoken}")
        low, high = self.cluster.versions[key]
        listed = [ApiVersionsResponse.Api(api_key=key, min_version=low, max_version=high)] if high >= 3 else []
        refusal = ApiVersionsResponse(error_code=code("UNSUPPORTED_VERSION"), api_keys=listed)
        self._busy = False
        return self._send(encode_response(refusal, 0, correlation_id))

    def _execute(self, call: Call) -> None:
        if self.dead or not self.broker.up:
            return
        if not self.broker.running(self.cluster.timeline.now):  # it froze meanwhile: go on where it stopped
            self.cluster.timeline.at(self.broker.frozen_until, lambda: self._execute(call))
            return
        response = self.cluster.controls.answer_for(call)
        if response is None:
            response = self.cluster.handle(call)
        if response is not LATER:
            call.answer(response)

    # ---- to the client

    def answered(self, call: Call, response: Any) -> None:
        """The request is executed: its answer leaves, unless a fault has other plans."""
        fault, self._fault = self._fault, None
        mute = self.cluster.throttling(call)
        data = b"" if response is NO_ANSWER else self._encode(call, response, mute)
        if fault is None or fault.fault in (Fault.DELAY, Fault.DROP_BEFORE):
            return self._reply(data, mute)
        return REACTIONS[fault.fault](self, data, fault.seconds)

    def _encode(self, call: Call, response: Any, mute: float) -> bytes:
        if mute > 0 and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = round(mute * 1000)
        return b"".join(encode_response(response, call.version, call.correlation_id))

    def _reply(self, data: bytes, mute: float = 0.0) -> None:
        self._send([data])
        if mute > 0:
            self.cluster.timeline.after(mute, self._free)
        else:
            self._free()

    def _free(self) -> None:
        self._busy = False
        self.proceed()

    def _send(self, buffers: list[Any]) -> None:
        data = b"".join(buffers)
        if self.open and data:
            self.front.send(data)

    def _drop(self, data: bytes, seconds: float) -> None:
        self.close()

    def _drop_midway(self, data: bytes, seconds: float) -> None:
        self._send([data[: max(1, len(data) // 2)]])
        self.close()

    def _swallow(self, data: bytes, seconds: float) -> None:
        """The connection stays, mute, until the client gives it up."""

    def _reply_later(self, data: bytes, seconds: float) -> None:
        self.cluster.timeline.after(seconds, lambda: self._reply(data))

    def _reply_garbage(self, data: bytes, seconds: float) -> None:
        self._reply(data[:8] + b"\xff" * (len(data) - 8))


REACTIONS: Final[dict[Fault, Callable[[Session, bytes, float], None]]] = {
    Fault.DROP_AFTER: Session._drop,
    Fault.DROP_MIDWAY: Session._drop_midway,
    Fault.SWALLOW: Session._swallow,
    Fault.DELAY_REPLY: Session._reply_later,
    Fault.GARBAGE: Session._reply_garbage,
}
