"""Opens the status page of a client, producer or consumer. Invariant: the page closes with the object that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka4.client.handle import Handle
from pykafka4.client.runtime import Runtime
from pykafka4.misuse import check_count

if TYPE_CHECKING:
    from pykafka4.pages.status_page import StatusPage
    from pykafka4.pages.watched import Watched

__all__ = ["ServesStatus"]

HIGHEST_PORT = 65535


class ServesStatus(Handle):
    """A handle that can serve its `status()` as a page."""

    def serve_status(self, port: int = 0) -> StatusPage:
        """Serve a live page of `status()` at `http://127.0.0.1:port/`, for browsers on this machine and for `pykafka4 watch`.

        The page changes nothing. Every user of this machine can see it. The page has names of topics and groups, and errors, but no
        records and no passwords. `port` 0 means a free port. Returns an object with `url`, `port` and `close()`, usable in
        `with`; closing this handle also closes the page. An open page reads the status every second, or less often with thousands of
        partitions (docs/guide/monitoring.md).

        Raises OSError if the port is taken; ConfigError or TypeError for a wrong `port`; ClosedError, ForkedClientError.
        """
        from pykafka4.pages.status_page import StatusPage  # imported here: few clients need a server

        checked = check_count(port, "port", HIGHEST_PORT)
        runtime, user, watched = self._shown()
        runtime.check()
        page = StatusPage(watched, checked)
        runtime.keep_page(page, user)
        return page

    def _shown(self) -> tuple[Runtime, object, Watched]:
        """The runtime, the producer or consumer whose end closes the page (None: the client), and the source of the figures."""
        raise NotImplementedError
