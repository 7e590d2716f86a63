"""asyncio. Rule: what is awaited here does not block the application's event loop.

`Producer` and `Consumer` are those of `pykafka4` with methods that are awaited where theirs would wait. The client's own loop stays a
thread; it wakes tasks through `call_soon_threadsafe`, once for all that happened in a turn. Nothing runs on asyncio's executor. Hooks run
on the client's callback thread; the last step of `close`, which joins the client's thread, has a thread of its own. The constructors,
`stats`, `status`, `purge` and `group_metadata` are plain calls: they wait for a turn of the client's thread.
"""

from pykafka4.aio.consumer import Consumer
from pykafka4.aio.producer import Producer

__all__ = ["Consumer", "Producer"]
