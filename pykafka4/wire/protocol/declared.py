"""All messages. Rule: every module that declares messages is imported here, so that `schema.REQUESTS` is complete.

A client imports only the modules whose messages it sends, because declaring all of them takes a tenth of a second. The broker side, which
decodes any request, needs them all.
"""

from __future__ import annotations

from pykafka4.wire.protocol import (
    messages_access,
    messages_admin,
    messages_cluster,
    messages_configs,
    messages_fetch,
    messages_group,
    messages_produce,
    messages_sasl,
    messages_share,
    messages_txn,
)

__all__ = ["DECLARED"]

DECLARED = (
    messages_access,
    messages_admin,
    messages_cluster,
    messages_configs,
    messages_fetch,
    messages_group,
    messages_produce,
    messages_sasl,
    messages_share,
    messages_txn,
)
