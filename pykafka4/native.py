"""Provides threads, locks, the clock, sockets and selectors as the interpreter has them, whatever other libraries have patched.

Invariant: gevent, eventlet and freezegun replace nothing that this module provides. These libraries assign to attributes of modules, and
freezegun looks for the functions of `time` in all modules; so the names below come from copies of the modules, which no other code has, or
from `_socket`, which these libraries leave alone.
"""

from __future__ import annotations

import _socket
import functools
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import BuiltinImporter, PathFinder
from types import ModuleType
from typing import Any

__all__ = [
    "Empty",
    "RLock",
    "SimpleQueue",
    "allocate_lock",
    "get_ident",
    "getaddrinfo",
    "monotonic",
    "selectors",
    "socket",
    "socketpair",
    "start_new_thread",
    "tls_socket_class",
    "whole_socket_class",
]


def _copy_of(name: str, **replaced: ModuleType) -> Any:
    """Return a new instance of the module `name`, whose imports find the modules `replaced`."""
    spec = BuiltinImporter.find_spec(name) or PathFinder.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    replaced[name] = module  # `ssl` adds enums to the module that `sys.modules` has under its name
    before = {other: sys.modules.get(other) for other in replaced}
    sys.modules.update(replaced)
    try:
        spec.loader.exec_module(module)
    finally:
        for other, found in before.items():
            if found is None:
                sys.modules.pop(other, None)
            else:
                sys.modules[other] = found
    return module


@functools.cache
def whole_socket_class() -> Any:
    """`socket.socket`, with `accept` and `makefile`."""
    return _copy_of("socket").socket


@functools.cache
def tls_socket_class() -> Any:
    """The socket class for TLS in a process with greenlets. Call this on a thread of the application, because it imports modules."""
    return _copy_of("ssl", socket=_copy_of("socket")).SSLSocket


_thread = _copy_of("_thread")
RLock: Any = _thread.RLock
allocate_lock: Any = _thread.allocate_lock
get_ident: Callable[[], int] = _thread.get_ident
start_new_thread: Any = _thread.start_new_thread
monotonic: Callable[[], float] = _copy_of("time").monotonic
selectors: Any = _copy_of("selectors", select=_copy_of("select"))
_queue = _copy_of("_queue")
SimpleQueue: Any = _queue.SimpleQueue
Empty: Any = _queue.Empty  # the class that this copy's `get` raises; `queue.Empty` is another class
# Neither gevent nor eventlet replaces these. On Windows `_socket` has no `socketpair`.
socket = _socket.socket
getaddrinfo: Any = _socket.getaddrinfo
socketpair: Callable[[], tuple[_socket.socket, _socket.socket]] = getattr(_socket, "socketpair", None) or _copy_of("socket").socketpair
