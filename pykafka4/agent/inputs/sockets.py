"""Binds the sockets of inputs. Invariant: nobody but root can connect to a UNIX socket before its mode and owner are set; only a stale
socket is replaced."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import pwd
import socket
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs

from pykafka4.agent.settings.values import TcpSettings, UnixSettings
from pykafka4.errors import ConfigError

__all__ = ["InputError", "UnixSocket", "bind_tcp", "bind_unix", "check_datagram_size", "owner_and_group"]

BACKLOG = 1024  # the kernel caps it at net.core.somaxconn
# Seconds to wait for the lock of the folder. An agent holds the lock only for a bind, so after this time the holder is probably another
# program.
FOLDER_LOCK_S = 2.0
UMASKED = 0o777


class InputError(ConfigError):
    """Raised if an input cannot be opened. The message names the reason."""


@attrs.frozen
class UnixSocket:
    """A bound UNIX socket, its path and file."""

    sock: socket.socket
    path: Path
    file: tuple[int, int]  # device and inode

    def unlink(self) -> None:
        """Remove the socket's file, unless another process has replaced it. Raises OSError.

        The caller must close the socket only afterwards: after the close, another file may get the inode.
        """
        with contextlib.suppress(FileNotFoundError):
            if _file_of(self.path) == self.file:
                self.path.unlink()


def bind_unix(settings: UnixSettings, kind: socket.SocketKind) -> UnixSocket:
    """Bind a socket with its mode and owner, in place of a stale one. A stream socket also listens. Raises InputError."""
    path = Path(settings.path)
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; create it (systemd: RuntimeDirectory=), or choose another path")
    owner, group = owner_and_group(settings)
    sock = socket.socket(socket.AF_UNIX, kind)
    bound: UnixSocket | None = None
    try:
        with _folder_locked(path):
            _remove_stale(path, kind)
            _bind_closed(sock, path)
            bound = UnixSocket(sock, path, _file_of(path))
            if kind is socket.SOCK_STREAM:
                sock.listen(BACKLOG)  # under the lock: a stream socket that is bound, but does not listen yet, looks stale to another agent
        _set_rights(path, settings.mode, owner, group)
        sock.setblocking(False)
    except BaseException as error:
        if bound is not None:
            bound.unlink()
        sock.close()
        if isinstance(error, OSError):
            raise InputError(f"cannot bind {path}: {error.strerror or error}") from error
        raise
    return bound


def _bind_closed(sock: socket.socket, path: Path) -> None:
    if sys.platform == "linux":
        os.fchmod(sock.fileno(), 0)  # Linux creates the file with the mode of the socket itself, less the umask
        sock.bind(str(path))
    else:
        mask = os.umask(UMASKED)  # for the whole process: a file that another thread creates now gets no permissions either
        try:
            sock.bind(str(path))
        finally:
            os.umask(mask)


def owner_and_group(settings: UnixSettings) -> tuple[int, int]:
    """Return the ids of the user and the group, each -1 if not set. Raises InputError for an unknown name."""
    return _uid(settings.owner), _gid(settings.group)


def _uid(owner: str | None) -> int:
    if owner is None:
        return -1
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(owner).pw_uid
    if owner.isdecimal():
        return int(owner)
    raise InputError(f"owner = {owner!r}: no user has this name")


def _gid(group: str | None) -> int:
    if group is None:
        return -1
    with contextlib.suppress(KeyError):
        return grp.getgrnam(group).gr_gid
    if group.isdecimal():
        return int(group)
    raise InputError(f"group = {group!r}: no group has this name")


def _set_rights(path: Path, mode: int | None, owner: int, group: int) -> None:
    # The owner comes first: a mode that is set before the owner would let in the group of the process.
    with _pinned(path) as file:
        if owner != -1 or group != -1:
            try:
                os.chown(file, owner, group)
            except PermissionError as error:
                raise InputError(
                    f"the process may not give {path} to another owner or group: start the agent as root, or leave out owner and group"
                ) from error
        Path(file).chmod(UMASKED & ~_umask() if mode is None else mode)


@contextlib.contextmanager
def _pinned(path: Path) -> Iterator[str]:
    """Yield a path that, on Linux, always leads to the same file. Raises InputError if that file is not a socket without permissions.

    A user who may write to the folder could put a link or the socket of another process there after `bind`: root would then change the
    rights of that file. `_bind_closed` makes a socket without permissions; the sockets of other processes usually have some.
    """
    if sys.platform != "linux":
        yield str(path)
        return
    file = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(file).st_mode != stat.S_IFSOCK:
            raise InputError(
                f"another process has replaced the socket {path} while it was bound; choose a folder that belongs to you alone"
            )
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)


def _umask() -> int:
    """Return the umask of the process. `os.umask` can read it only by changing it, for all threads."""
    for line in Path("/proc/self/status").read_text().splitlines() if Path("/proc/self/status").exists() else ():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def _folder_locked(path: Path) -> Iterator[None]:
    """Hold the lock of the socket's folder, so that one agent at a time looks for a stale socket and binds.

    Otherwise two agents may find the same stale socket. The first agent removes it and binds its own; then the second agent removes the
    new socket, which it takes for the stale one, and the first agent gets no messages.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + FOLDER_LOCK_S
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InputError(
                        f"another process holds a lock on the folder {path.parent}; find the process with `fuser {path.parent}`"
                    ) from None
                time.sleep(0.01)
        yield
    finally:
        os.close(folder)


def _remove_stale(path: Path, kind: socket.SocketKind) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise InputError(f"{path} exists and is not a socket; remove the file, or choose another path")
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.setblocking(False)
        code = probe.connect_ex(str(path))
    if code in {errno.ECONNREFUSED, errno.ENOENT}:
        path.unlink(missing_ok=True)
    elif code in {0, errno.EAGAIN, errno.EPROTOTYPE, errno.EINPROGRESS}:
        raise InputError(f"a process has the socket {path} open; stop it (`ss -xlp src {path}` finds it), or choose another path")
    else:
        raise InputError(f"{path} exists, and a process may have it open ({os.strerror(code)}); remove the file if no process has it open")


def _file_of(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def bind_tcp(settings: TcpSettings) -> socket.socket:
    """Return a listening socket. Raises InputError."""
    host = "127.0.0.1" if settings.host == "localhost" else settings.host
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of the last run may be in TIME_WAIT
        sock.bind((host, settings.port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        hint = f"; `ss -ltnp sport = :{settings.port}` shows who has it" if error.errno == errno.EADDRINUSE else ""
        raise InputError(f"cannot bind port {settings.port} of {host}: {error.strerror}{hint}") from error
    return sock


def check_datagram_size(size: int, *, allow_large: bool) -> None:
    """Raise InputError if clients cannot send `size` bytes with the default send buffer or, if `allow_large`, with a larger one."""
    if _fits(size, enlarge=False):
        return
    if not allow_large:
        raise InputError(
            f"max_datagram_size = {size}: a socket with the default send buffer cannot send so large a datagram; use a smaller size, or "
            f"raise the system's default (sysctl net.core.wmem_default), or set allow_large_datagrams = true and let clients set SO_SNDBUF"
        )
    if not _fits(size, enlarge=True):
        raise InputError(
            f"max_datagram_size = {size}: the system's limit for send buffers is too low; raise the limit: "
            f"sysctl -w net.core.wmem_max={2 * size}"
        )


def _fits(size: int, *, enlarge: bool) -> bool:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        ours.setblocking(False)
        if enlarge:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        try:
            return ours.send(bytes(size)) == size
        except OSError as error:
            if error.errno in {errno.EMSGSIZE, errno.ENOBUFS}:
                return False
            raise
