"""Makes the unit file that `pykafka4 agent --systemd-unit` prints."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["systemd_unit"]

# systemd starts the agent as an unprivileged user, so the settings need no `user`. RuntimeDirectory creates a folder for the sockets,
# StateDirectory a folder for the spool. The unit sets no memory limit, because `max_buffer` limits the memory for messages.
UNIT = """\
# pykafka4-agent.service, written by `pykafka4 agent --systemd-unit`. Put it into /etc/systemd/system, then:
#   systemctl daemon-reload && systemctl enable --now pykafka4-agent
[Unit]
Description=pykafka4 agent: takes messages from local programs and sends them to Kafka
Documentation=https://github.com/pykafka4/pykafka4/blob/main/docs/guide/agent.md
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart={program} agent --config {config}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2
# 2: the settings have errors, which a restart does not fix
RestartPreventExitStatus=2
# more than the default of service.shutdown_ms
TimeoutStopSec=60
WatchdogSec=60
KillMode=mixed

DynamicUser=yes
User=pykafka4
RuntimeDirectory=pykafka4
RuntimeDirectoryMode=0755
StateDirectory=pykafka4
LogsDirectory=pykafka4
UMask=0077
LimitNOFILE=65536

NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""


def systemd_unit(config: Path | None) -> str:
    program = Path(sys.argv[0]).absolute()
    command = str(program) if program.name == "pykafka4" else f"{sys.executable} -m pykafka4"
    return UNIT.format(program=command, config=(config or Path("/etc/pykafka4/agent.toml")).absolute())
