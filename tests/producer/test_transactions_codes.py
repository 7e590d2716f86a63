"""What each error code of a Produce response does to a transaction: it is sent again, must be aborted, or ends the producer.

The table is written by hand; it does not come from `errors/codes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka4 import KafkaError, Producer, TransactionAborted, TransactionError
from pykafka4.errors.codes import CODES
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS

COMMITS = {2, 3, 5, 6, 7, 8, 9, 13, 19, 20, 41, 46, 51, 56, 72, 74, 75, 80, 83, 84, 89, 100, 103}
ENDS = {31, 49, 53, 90}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(brokers=1) as server:
        server.create_topic("t", 1)
        yield server


@pytest.mark.parametrize("code", sorted(CODES.keys() - {0}))
def test_what_an_error_of_produce_does_to_a_transaction(server: ModelServer, code: int) -> None:
    options = {"transactional_id": f"x{code}", "linger_ms": 0, "retry_backoff_ms": 10}
    with Producer(bootstrap_servers=server.bootstrap_servers, **options) as producer:
        producer.init_transactions(SECONDS)
        with producer.transaction():
            producer.send("t", b"before")
        producer.begin_transaction()
        producer.send("t", b"first").result(SECONDS)
        server.fail("Produce", CODES[code].name)
        delivery = producer.send("t", b"refused")
        if code in COMMITS:
            producer.commit_transaction(SECONDS)
            assert delivery.exception(0) is None
        elif code in ENDS:
            assert delivery.exception(SECONDS) is not None
            with pytest.raises(KafkaError) as raised:
                producer.commit_transaction(SECONDS)
            assert not isinstance(raised.value, TransactionError)
            with pytest.raises(type(raised.value)):
                producer.begin_transaction()
            return
        else:
            assert delivery.exception(SECONDS) is not None
            with pytest.raises(TransactionAborted, match=CODES[code].name):
                producer.commit_transaction(SECONDS)
            producer.abort_transaction(SECONDS)
        with producer.transaction():
            producer.send("t", b"after")
