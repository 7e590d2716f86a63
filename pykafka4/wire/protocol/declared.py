"""Imports every module that declares messages. Afterwards `schema.REQUESTS` is complete.

A client imports only the modules whose messages it sends, because importing all takes a tenth of a second. The broker side needs all.
"""

from pykafka4.wire.protocol import (  # noqa: F401
    messages_acls,
    messages_admin,
    messages_cluster,
    messages_configs,
    messages_fetch,
    messages_group,
    messages_produce,
    messages_producers,
    messages_replicas,
    messages_sasl,
    messages_share,
    messages_telemetry,
    messages_txn,
    messages_users,
)
