"""Defines the options of share consumers; `config` has the options of every client."""

from __future__ import annotations

from typing import Any

import attrs

from pykafka4.errors import ConfigError
from pykafka4.hooks import parse_consumer_hooks
from pykafka4.options.config import ClientConfig
from pykafka4.options.fields import MIB, choice, millis, number, parsed, text

__all__ = ["ShareConsumerConfig"]


@attrs.frozen(kw_only=True)
class ShareConsumerConfig(ClientConfig):
    """Options of share consumers, in addition to the options of every client."""

    group_id: str | None = text(None, "The share group; required. No group of another kind may have this id.")
    client_rack: str | None = text(None, "Rack of this consumer, for the coordinator's assignor.")
    share_acknowledgement_mode: str = choice(
        "implicit",
        ("implicit", "explicit"),
        "`implicit`: records are accepted when the next ones are requested; `explicit`: the application acknowledges each record.",
    )
    share_acquire_mode: str = choice(
        "batch_optimized",
        ("batch_optimized", "record_limit"),
        "The unit of locks on brokers: whole batches, or at most max_poll_records records (Kafka 4.2; older brokers lock batches).",
    )
    max_poll_interval_ms: float = millis(300_000, "Maximum time between two polls before the member leaves the group.", low=1)
    close_timeout_ms: float = millis(
        10_000, "How long `close`, and the end of a `with` block, wait for the last acknowledgements and for leaving the group."
    )
    max_poll_records: int = number(
        500, "records", "Maximum number of records that one `poll` returns; brokers aim for this number, too.", low=1
    )
    fetch_min_bytes: int = number(1, "bytes", "A broker responds when it has this much data, or after fetch_max_wait_ms.")
    fetch_max_wait_ms: float = millis(
        500, "How long a broker may wait for fetch_min_bytes; acknowledgements for the same broker wait meanwhile."
    )
    fetch_max_bytes: int = number(50 * MIB, "bytes", "Maximum size of a fetch response; at most receive_message_max_bytes.", low=1)
    max_decompressed_bytes: int = number(
        64 * MIB,
        "bytes",
        "A batch whose decompressed size is larger is rejected. A poll stops decoding when waiting decoded records take this much memory.",
        low=1024,
    )
    hooks: tuple[Any, ...] = parsed(
        parse_consumer_hooks, "objects", "An object, or several, whose method on_poll sees the records that polls return.", default=()
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.group_id is None:
            raise ConfigError("group_id is missing: a share consumer is a member of a share group")
        if self.fetch_max_bytes > self.receive_message_max_bytes:
            raise ConfigError(
                f"fetch_max_bytes={self.fetch_max_bytes} is larger than receive_message_max_bytes={self.receive_message_max_bytes}: "
                "responses of that size would be rejected; lower the former or raise the latter"
            )

    @property
    def group(self) -> str:
        return self.group_id or ""

    @property
    def is_implicit(self) -> bool:
        """Whether the next poll accepts the records of the previous one."""
        return self.share_acknowledgement_mode == "implicit"
