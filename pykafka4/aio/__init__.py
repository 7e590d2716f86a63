"""asyncio. Rule: what is awaited here does not block the application's event loop.

`Producer` is the producer of `pykafka4` with methods that are awaited where those would wait. The client's own loop stays a thread; it
wakes tasks through `call_soon_threadsafe`, once for all that happened in a turn. There are no other threads; only the last step of `close`
runs on asyncio's default executor, because it joins the client's thread. The constructor, `stats` and `status` are plain calls: they wait
for a turn of the client's thread.
"""

from pykafka4.aio.producer import Producer

__all__ = ["Producer"]
