"""The user that the agent becomes."""

from __future__ import annotations

import errno
import grp
import os
import pwd

import pytest

from pykafka4.agent.service.privileges import Identity, become, identity_of
from pykafka4.errors import ConfigError


def test_a_group_that_the_process_would_not_get_is_refused() -> None:
    mine = pwd.getpwuid(os.geteuid()).pw_name
    other = next(group for group in grp.getgrall() if group.gr_gid != os.getegid())
    assert identity_of(mine, str(os.getegid())).groups[0] == os.getegid()
    with pytest.raises(ConfigError, match=rf"group='{other.gr_name}': .* keeps its group {os.getegid()}; leave out `group`"):
        identity_of(mine, other.gr_name)


@pytest.mark.parametrize("call", ["setgroups", "setresuid"])
def test_a_system_that_refuses_the_user_is_named_with_the_user(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example root of a container without the capabilities."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for each in ("setgroups", "setresgid", "setresuid"):
        monkeypatch.setattr(os, each, refuse if each == call else lambda *_: None)
    with pytest.raises(ConfigError, match=r"^user='nobody': the system refuses .*: Operation not permitted; .* CAP_SETUID"):
        become(Identity("nobody", 65534, (65534,)))
