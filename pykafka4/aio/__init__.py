"""Adapts producers, consumers, clients and admin clients to asyncio. Invariant: an awaited call does not block the application's event
loop, unless the system can start no thread.

`Producer`, `Consumer`, `Client` and `AdminClient` have most methods of the classes of the same name in `pykafka4`; methods that would block
a thread are awaited. The client's own loop is still a thread, which wakes tasks through `call_soon_threadsafe`, one call for many tasks.
Nothing runs on asyncio's executor. Hooks of batches and requests run on the client's callback thread, other hooks inside the calls, on the
event loop. Separate threads run the last step of `close`, which joins the client's thread and can call `on_close` of hooks, the reading
of an Arrow batch, and each call of an admin client. The constructors, `stats`, `status`, `purge` and `group_metadata` are
plain calls, which wait at most for turns of the client's loop.

Modules; each line imports only from lines below it:
    admin         the handle of an admin client
    bounded       `read`: the records between two offsets of each partition
    client        the handle of a client: stateless calls
    consumer      the handle of a consumer, and its loops over records and batches
    producer      the handle of a producer; waits for room in its buffer
    columns       the rows of Arrow data, sent from a task
    transactions  transactions of tasks, and their blocks
    session       polls, commits and close of a consumer in tasks
    processing    the handlers of `process` in tasks
    waits         waits of a consumer's steps in tasks
    guard         the guard that lets one task at a time use a consumer
    tasks         latches and futures on which a task sleeps until another thread wakes it
"""

from pykafka4.aio.admin import AdminClient
from pykafka4.aio.bounded import read
from pykafka4.aio.client import Client
from pykafka4.aio.consumer import Consumer
from pykafka4.aio.producer import Producer

__all__ = ["AdminClient", "Client", "Consumer", "Producer", "read"]
