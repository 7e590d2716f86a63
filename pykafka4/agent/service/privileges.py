"""Changes the process from root to another user. Invariant: afterwards the process cannot become root again."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import attrs

from pykafka4.errors import ConfigError

__all__ = ["Identity", "become", "identity_of", "may"]


@attrs.frozen
class Identity:
    """A user with its groups, the primary group first."""

    name: str
    uid: int
    groups: tuple[int, ...]


def identity_of(user: str, group: str | None) -> Identity:
    """Return a user by name or number, with its groups; `group` replaces the primary group.

    Raises ConfigError for an unknown user or group, or if the process already runs as `user`, but with another group.
    """
    try:
        found = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError):
        raise ConfigError(f"user={user!r}: this machine has no such user") from None
    gid = found.pw_gid
    if group is not None:
        try:
            gid = (grp.getgrgid(int(group)) if group.isdecimal() else grp.getgrnam(group)).gr_gid
        except (KeyError, OverflowError):
            raise ConfigError(f"group={group!r}: this machine has no such group") from None
    if group is not None and found.pw_uid == os.geteuid() and gid != os.getegid():
        raise ConfigError(
            f"group={group!r}: the process is user {found.pw_name} already, and keeps its group {os.getegid()}; leave out `group`, or "
            "start the agent as root with another `user`"
        )
    others = [each for each in os.getgrouplist(found.pw_name, gid) if each != gid]
    return Identity(found.pw_name, found.pw_uid, (gid, *others))


def may(identity: Identity | None, path: Path, right: int) -> bool:
    """Whether the user may read (`os.R_OK`) or write (`os.W_OK`) a file or folder. None means the user of this process.

    A process other than root cannot change its user, so it checks its own rights. For another user, root checks only the mode of `path`,
    not the folders above.
    """
    if identity is None or os.geteuid() != 0:
        return os.access(path, right)
    try:
        found = path.stat()
    except OSError:
        return False
    shift = 6 if found.st_uid == identity.uid else 3 if found.st_gid in identity.groups else 0
    return identity.uid == 0 or bool(found.st_mode >> shift & right)


def become(identity: Identity) -> bool:
    """Change from root to the identity permanently; return False if the process has this user already.

    Raises ConfigError if the process is neither root nor this user, if the system refuses, or if the process is still root afterwards.
    """
    if os.geteuid() != 0:
        if os.geteuid() == identity.uid:
            return False
        raise ConfigError(
            f"user={identity.name!r}: only root can change its user, and the process runs as user {os.geteuid()}; leave out `user`"
        )
    if identity.uid == 0:
        return False
    # The groups come first: after setresuid the process may not change them. All three ids are set: with a saved id of 0 the process could
    # become root again.
    try:
        os.setgroups(identity.groups)
        os.setresgid(*identity.groups[:1] * 3)
        os.setresuid(identity.uid, identity.uid, identity.uid)
    except OSError as error:
        raise ConfigError(
            f"user={identity.name!r}: the system refuses the change of the user: {error.strerror}; give the process CAP_SETUID and "
            "CAP_SETGID, or leave out `user`"
        ) from None
    os.umask(0o027 | os.umask(0))
    if os.geteuid() == 0 or os.getresuid()[2] == 0:
        raise ConfigError(f"user={identity.name!r}: the process is still root")
    return True
