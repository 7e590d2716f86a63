"""Types of the core, compiled or plain. `reference.py` says what each does."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar, final

from typing_extensions import Buffer

from pykafka4.errors import DeliveryFailed, KafkaError
from pykafka4.partitioners import Partitioner
from pykafka4.records import Headers, HeadersLike, ProducerRecord, RecordMetadata, Written
from pykafka4.wire.records.policy import Policy

F = TypeVar("F", bound=Callable[..., Any])

OPEN: Final = 0
SEALED: Final = 1
ACKED: Final = 2
FAILED: Final = 3
SPLIT: Final = 4

def send_method(function: F, /) -> F: ...
def now_ms() -> int: ...
def murmur2(data: Buffer) -> int: ...
def crc32c(data: Buffer, value: int = 0) -> int: ...
def _crc32c_portable(data: Buffer, value: int = 0) -> int: ...

@final
class Record:
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int
    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int = -1,
        timestamp_type: str = "CREATE_TIME",
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Headers = (),
        leader_epoch: int = -1,
    ) -> None: ...
    def __hash__(self) -> int: ...

@final
class Chunk:
    topic: Final[str]
    partition: Final[int]
    serial: Final[Any]
    next_offset: int
    position: int
    size: int
    incomplete: int
    decoded: int
    last_leader_epoch: int
    def __init__(
        self,
        topic: str,
        partition: int,
        data: Buffer,
        fetch_offset: int,
        *,
        serial: object = None,
        decompress: Callable[[int, Buffer, int], bytes],
        max_decompressed: int,
        aborted: Iterable[tuple[int, int]] = (),
        high_watermark: int = ...,
    ) -> None: ...
    @property
    def exhausted(self) -> bool: ...
    def decode(self, out: list[Record], limit: int, max_bytes: int = ...) -> int: ...
    def skip(self) -> int: ...
    def own(self) -> None: ...

@final
class RecordIterator:
    records: Final[list[Record]]
    given: int
    stopped: bool
    def __init__(self, records: list[Record]) -> None: ...
    def __iter__(self) -> RecordIterator: ...
    def __next__(self) -> Record: ...
    def __length_hint__(self) -> int: ...

@final
class Batch:
    topic: Final[str]
    partition: Final[int]
    count: Final[int]
    state: int
    created: Final[float]
    linger: Final[float]
    producer_id: int
    producer_epoch: int
    base_sequence: int
    attempts: int
    failed_attempts: int
    written: bool
    in_flight: bool
    sent_at: float
    last_error: Any
    @property
    def size(self) -> int: ...
    @property
    def raw_size(self) -> int: ...
    @property
    def times(self) -> tuple[int, int]: ...
    @property
    def ready(self) -> bool: ...
    @property
    def maybe_repeated(self) -> bool: ...
    @property
    def done(self) -> bool: ...
    @property
    def settled(self) -> bool: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def outcome(self) -> tuple[int, int, str | None, Written | None, BaseException | None]: ...
    def handle(self) -> Delivery: ...
    def compress(self) -> None: ...
    def finish(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None: ...
    def complete(self, base_offset: int, log_append_time_ms: int) -> Callable[[], None] | None: ...
    def fail(self, code: str, written: Written, cause: BaseException | None = None) -> Callable[[], None] | None: ...
    def records(self) -> list[ProducerRecord]: ...
    def lost(self) -> list[ProducerRecord]: ...
    def split(self) -> list[Batch]: ...
    def set_apart(self, indexes: Iterable[int]) -> tuple[Batch | None, list[Batch]]: ...

@final
class Delivery:
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def settled(self) -> bool: ...
    def done(self) -> bool: ...
    def result(self, timeout: float | None = None) -> RecordMetadata: ...
    def exception(self, timeout: float | None = None) -> DeliveryFailed | None: ...
    def lost(self) -> list[ProducerRecord]: ...
    def add_done_callback(self, fn: Callable[[Delivery], object]) -> None: ...
    def __await__(self) -> Generator[Any, Any, RecordMetadata]: ...

@final
class Accumulator:
    refusal: KafkaError | None
    transactional: bool
    can_send: bool
    defers: bool
    watch: Callable[[Batch], object] | None
    wake_at: float
    waiters: int
    full_partitions: frozenset[tuple[str, int]] | None
    @property
    def spare_bytes(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def acked(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def parked_records(self) -> int: ...
    @property
    def lost_times(self) -> tuple[int, int]: ...
    @property
    def reserved(self) -> int: ...
    @property
    def batches(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    def take_dropped(self) -> list[Any]: ...
    def hurry(self, size: int) -> None: ...
    def __init__(
        self,
        *,
        batch_size: int,
        linger: float = 0.0,
        buffer_memory: int,
        max_partition_bytes: int,
        max_request_size: int,
        codec: int = 0,
        compress: Callable[..., bytes] | None = None,
        policy: Callable[[str], Policy] | None = None,
        clock: Callable[[], float],
        wake: Callable[[], object],
        new_topic: Callable[[str], object],
        make_room: Callable[[str, int, int, float], float],
        wait: Callable[[Callable[[], bool], float | None], bool],
        submit: Callable[[Callable[[], None]], object],
        lock: AbstractContextManager[Any, bool | None] | None = None,
        awaiting: Callable[[Delivery], Generator[Any, Any, RecordMetadata]] | None = None,
        failure_seen: Callable[[int], object] | None = None,
        wall: Callable[[], int] | None = None,
        seed: int | None = None,
        find_partition: Callable[[str, int, float], float] | None = None,
        find_topic: Callable[[str, float], float] | None = None,
        partitioner: Partitioner | None = None,
        client_id: str = "pykafka4",
        limits: str | None = None,
        drop_error: BaseException | None = None,
        call_dropped: Callable[[Callable[[Delivery], object], Delivery], object] | None = None,
    ) -> None: ...
    def send(
        self,
        topic: str,
        value: Buffer | str | None = None,
        *,
        key: Buffer | str | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery: ...
    def send_many(
        self,
        topic: str,
        values: Iterable[Buffer | str | None],
        *,
        keys: Iterable[Buffer | str | None] | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> list[Delivery]: ...
    def take(self, now: float, no_linger: bool = False) -> tuple[list[Batch], list[Batch], float]: ...
    def seal(self, batch: Batch, taken: bool = False) -> bool: ...
    def limit_batches(self, topic: str, size: int) -> None: ...
    def limit_records(self, topic: str, size: int) -> None: ...
    def assign(self, batch: Batch, partition: int) -> None: ...
    def expedite(self) -> None: ...
    def room(self, topic: str, partition: int, nbytes: int) -> bool: ...
    def crowded(self, topic: str, partition: int, nbytes: int) -> bool: ...
    def set_partitions(self, topic: str, count: int, available: Sequence[int]) -> None: ...
    def designate(
        self, topic: str, limit: int = 1000, patient: bool = False
    ) -> tuple[int, list[tuple[str, Exception, Callable[[], None] | None]]]: ...
    def fail_parked(self, topic: str, error: BaseException, before: float = ...) -> tuple[int, Callable[[], None] | None]: ...
    def direct(self, topic: str) -> bool: ...
    def parked(self, topic: str) -> tuple[int, float]: ...
    def forget(self, topic: str) -> bool: ...
    def unfinished(self) -> list[Batch | Delivery]: ...
    def census(self) -> tuple[int, list[tuple[Batch, int, bool]], list[tuple[str, int]]]: ...
