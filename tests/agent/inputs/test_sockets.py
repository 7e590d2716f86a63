"""Binding: modes, owners, stale and living sockets, what is no socket, addresses, sizes."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from pykafka4.agent.inputs import sockets
from pykafka4.agent.inputs.sockets import InputError, bind_tcp, bind_unix, check_datagram_size
from pykafka4.agent.settings.values import TcpSettings, UnixSettings

KINDS = [socket.SOCK_DGRAM, socket.SOCK_STREAM]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away; run pytest as root")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def client(path: Path, kind: socket.SocketKind) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, kind)
    sock.connect(str(path))
    return sock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.sock"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [0o222, 0o600, 0o000, 0o666])
def test_the_file_has_the_mode_whatever_the_umask(path: Path, kind: socket.SocketKind, mode: int) -> None:
    before = os.umask(0o077)
    try:
        bound = bind_unix(UnixSettings(path, mode), kind)
    finally:
        os.umask(before)
    with bound.sock:
        assert mode_of(path) == mode


def test_without_a_mode_the_umask_decides(path: Path) -> None:
    before = os.umask(0o027)
    try:
        with bind_unix(UnixSettings(path), socket.SOCK_DGRAM).sock:
            assert mode_of(path) == 0o750
    finally:
        os.umask(before)


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_can_connect_before_the_mode_is_set(path: Path, kind: socket.SocketKind, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(sockets, "_set_rights", lambda path, *_: seen.append(mode_of(path)))
    before = os.umask(0)
    try:
        bind_unix(UnixSettings(path, 0o666), kind).sock.close()
    finally:
        os.umask(before)
    assert seen == [0]


@AS_ROOT
def test_owner_and_group_are_set_by_name_and_number(path: Path) -> None:
    with bind_unix(UnixSettings(path, 0o640, owner="nobody", group="12"), socket.SOCK_DGRAM).sock:
        found = path.stat()
        assert (found.st_uid, found.st_gid, mode_of(path)) == (65534, 12, 0o640)


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"owner": "no-such-user"}, "owner = 'no-such-user': no user"), ({"group": "no-such-group"}, "group = 'no-such-group': no group")],
)
def test_an_unknown_owner_is_refused_before_anything_is_bound(path: Path, settings: dict[str, str], error: str) -> None:
    with pytest.raises(InputError, match=error):
        bind_unix(UnixSettings(path, **settings), socket.SOCK_DGRAM)
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no file can be held by its name")
@pytest.mark.parametrize("others", ["a link", "a socket"])
def test_the_rights_of_a_file_in_the_place_of_the_socket_are_not_changed(path: Path, others: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write to the folder would let root change the rights of any file."""
    victim, bind = path.with_name("victim"), sockets._bind_closed
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(victim))
        victim.chmod(0o600)

        def bind_and_replace(sock: socket.socket, path: Path) -> None:
            bind(sock, path)
            if others == "a link":
                path.unlink()
                path.symlink_to(victim)
            else:
                victim.replace(path)

        monkeypatch.setattr(sockets, "_bind_closed", bind_and_replace)
        changed: list[object] = []
        monkeypatch.setattr(Path, "chmod", lambda *args: changed.append(args))
        with pytest.raises(InputError, match="has replaced the socket"):
            bind_unix(UnixSettings(path, 0o666), socket.SOCK_DGRAM)
        assert changed == []


def test_a_socket_whose_rights_cannot_be_set_is_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(
        InputError, match=r"may not give .* to another owner or group: start the agent as root, or leave out owner and group"
    ):
        bind_unix(UnixSettings(path, owner="0"), socket.SOCK_DGRAM)
    assert not path.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_stale_socket_is_replaced(path: Path, kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_UNIX, kind) as old:
        old.bind(str(path))
    with bind_unix(UnixSettings(path), kind).sock, client(path, kind):
        pass


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_a_living_socket_is_left_alone(path: Path, kind: socket.SocketKind, other: socket.SocketKind) -> None:
    with bind_unix(UnixSettings(path), other).sock:
        with pytest.raises(InputError, match=r"a process has the socket .* open; stop it .* or choose another path"):
            bind_unix(UnixSettings(path), kind)
        client(path, other).close()


def test_a_living_socket_with_a_full_queue_is_left_alone(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        waiting = client(path, socket.SOCK_STREAM)
        with pytest.raises(InputError, match="a process has the socket"):
            bind_unix(UnixSettings(path), socket.SOCK_STREAM)
        waiting.close()


def test_a_file_a_folder_and_a_link_are_never_removed(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(InputError, match=r"exists and is not a socket; remove the file, or choose another path"):
        bind_unix(UnixSettings(path), socket.SOCK_DGRAM)
    assert path.read_text() == "precious"
    link = path.with_name("link")
    link.symlink_to(path)
    with pytest.raises(InputError, match="is not a socket"):
        bind_unix(UnixSettings(link), socket.SOCK_DGRAM)
    assert link.is_symlink()
    with pytest.raises(InputError, match="is not a socket"):
        bind_unix(UnixSettings(path.parent), socket.SOCK_DGRAM)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the folder .*missing does not exist; create it \(systemd: RuntimeDirectory=\)"):
        bind_unix(UnixSettings(tmp_path / "missing" / "sock"), socket.SOCK_DGRAM)


def test_a_path_of_107_bytes_is_bound() -> None:
    folder = Path(f"/tmp/{'f' * 20}-{os.getpid()}")
    folder.mkdir()
    path = folder / ("s" * (107 - len(str(folder)) - 1))
    try:
        bound = bind_unix(UnixSettings(path), socket.SOCK_DGRAM)
        client(path, socket.SOCK_DGRAM).close()
        bound.unlink()
        bound.sock.close()
    finally:
        folder.rmdir()


def test_its_own_file_is_removed_and_that_of_another_is_not(path: Path) -> None:
    first = bind_unix(UnixSettings(path), socket.SOCK_DGRAM)
    path.unlink()
    second = bind_unix(UnixSettings(path), socket.SOCK_DGRAM)
    first.unlink()
    first.sock.close()
    assert path.exists()
    second.unlink()
    second.unlink()
    second.sock.close()
    assert not path.exists()


def test_two_agents_that_start_at_once_do_not_remove_each_others_socket(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "FOLDER_LOCK_S", 0.0)
    folder = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="another process holds a lock on the folder"):
        bind_unix(UnixSettings(path), socket.SOCK_DGRAM)
    os.close(folder)
    bind_unix(UnixSettings(path), socket.SOCK_DGRAM).sock.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_socket_that_another_agent_has_just_bound_is_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: socket.SocketKind
) -> None:
    refused: list[str] = []

    def second_agent(*_: object) -> None:
        with pytest.raises(InputError) as caught:
            bind_unix(UnixSettings(path), kind)
        refused.append(str(caught.value))

    monkeypatch.setattr(os, "chown", second_agent)
    with bind_unix(UnixSettings(path, 0o666, owner="0"), kind).sock:
        assert len(refused) == 1
        client(path, kind).close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_tcp_listens_on_loopback_addresses(host: str) -> None:
    try:
        sock = bind_tcp(TcpSettings(0, host))
    except InputError as error:
        if host == "::1" and getattr(error.__cause__, "errno", None) in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
            pytest.skip("this machine has no IPv6")
        raise
    with sock, socket.create_connection(sock.getsockname()[:2]):
        pass


def test_a_port_in_use_is_named() -> None:
    with bind_tcp(TcpSettings(0)) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(InputError, match=rf"cannot bind port {port} of 127.0.0.1: Address already in use; `ss -ltnp sport = :{port}`"):
            bind_tcp(TcpSettings(port))


def test_datagrams_that_fit_a_default_buffer_need_no_permission() -> None:
    check_datagram_size(64 * 1024, allow_large=False)


def test_larger_datagrams_need_permission() -> None:
    largest = int(Path("/proc/sys/net/core/wmem_default").read_text())
    with pytest.raises(InputError, match=rf"max_datagram_size = {largest}: .* default send buffer .*allow_large_datagrams = true"):
        check_datagram_size(largest, allow_large=False)


def test_datagrams_beyond_the_systems_limit_are_refused() -> None:
    limit = int(Path("/proc/sys/net/core/wmem_max").read_text())
    if 2 * limit >= 16 * 1024 * 1024:
        pytest.skip("net.core.wmem_max of this machine allows all sizes; sysctl -w net.core.wmem_max=212992 makes this test possible")
    with pytest.raises(InputError, match=r"sysctl -w net.core.wmem_max="):
        check_datagram_size(2 * limit, allow_large=True)
