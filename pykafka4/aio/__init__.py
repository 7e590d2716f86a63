"""asyncio. Rule: what is awaited here does not block the application's event loop.

`Producer`, `Consumer`, `Client` and `AdminClient` are those of `pykafka4`, with methods to await where theirs would wait. The client's own
loop stays a thread; it wakes tasks through `call_soon_threadsafe`, once for all that happened in a turn. Nothing runs on asyncio's
executor. Hooks run on the client's callback thread; the last step of `close`, which joins the client's thread, the reading of an Arrow
batch, and each call of an admin client have threads of their own. The constructors, `stats`, `status`, `purge` and `group_metadata` are
plain calls: they wait for a turn of the client's thread.

Modules; each line imports only from lines below it:
    admin         the handle of an admin client: looks and changes
    bounded       `read`: the records between two places of logs, and the end
    client        the handle of a client: stateless calls
    consumer      the handle of a consumer, and its loops: records, batches
    producer      the handle of a producer; waits for room in its buffer
    columns       sends the rows of Arrow data from a task
    transactions  transactions of tasks, and their blocks
    session       polls, commits and closes a consumer in tasks
    processing    runs the handlers of `process` in tasks
    waits         waits of a consumer's steps in tasks
    guard         one task at a time uses a consumer
    tasks         latches and futures: a task sleeps until another thread wakes it
"""

from pykafka4.aio.admin import AdminClient
from pykafka4.aio.bounded import read
from pykafka4.aio.client import Client
from pykafka4.aio.consumer import Consumer
from pykafka4.aio.producer import Producer

__all__ = ["AdminClient", "Client", "Consumer", "Producer", "read"]
