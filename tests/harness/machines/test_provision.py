"""Provisioning where no machine is needed: provision.sh itself, in namespaces whose /opt, /etc, /run and /var are its own."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.host import prerequisites
from integration.kafka.jars import KAFKA, kafka_jars
from integration.kafka.settings import BROKER, expand, write_properties
from tests.harness.private import UNSHARE, obstacle

pytestmark = [pytest.mark.vagrant, pytest.mark.smoke]

VAGRANT = Path(__file__).parents[3] / "integration" / "vagrant"
PROVISION = VAGRANT / "provision.sh"
INSTALL = f"{PROVISION} install"
# Everything that provision.sh writes; without one of these mounts nothing runs.
PRIVATE = """
set -eu
for folder in /opt /run /var/lib /var/log; do mount -t tmpfs none "$folder"; done
mount -t tmpfs none "$OVER"
cp -a /etc/. "$OVER"
mount --bind "$OVER" /etc
"""

# What a machine has: `java` is of version $(cat $ROOM/java), and a broker of its name listens.
JAVA = f"""#!/bin/bash
[ "$1" = -version ] && {{ echo "openjdk version \\"$(cat "$ROOM/java").0.1\\"" >&2; exit; }}
exec -a java {Path(sys.executable).resolve()} -I -S -c \
'import signal, socket; taken = socket.create_server(("127.0.0.1", 9093)); signal.pause()' "$@"
"""
# The unit's own lines are what is run.
SYSTEMCTL = """#!/bin/bash
echo "systemctl $*" >>"$ROOM/calls"
line() { sed -n "s/^$1=+\\?//p" /etc/systemd/system/kafka.service; }
case $1 in
    start) setsid $(line ExecStart) >>/var/log/kafka/server.log 2>&1 </dev/null & ;;
    stop) $(line ExecStop) ;;
    is-enabled) [ -e /run/enabled ] ;;
    enable) : >/run/enabled ;;
esac
"""
APT_GET = """#!/bin/bash
echo "apt-get $*" >>"$ROOM/calls"
[ "$1" = install ] || exit 0
while [ "$2" != --no-install-recommends ]; do shift; done
for package in "${@:3}"; do
    case $package in
        procps) ln -s "$(PATH=$SYSTEM command -v pgrep)" "$ROOM/bin/" ;;
        util-linux) ln -s "$(PATH=$SYSTEM command -v setpriv)" "$ROOM/bin/" ;;
        curl) ln -s "$(PATH=$SYSTEM command -v curl)" "$ROOM/bin/" ;;
        maven) ln -s "$ROOM/mvn" "$ROOM/bin/" ;;
        openjdk-*) echo "$package" | tr -dc 0-9 >"$ROOM/java" ;;
        default-jre-headless) echo 11 >"$ROOM/java" ;;
    esac
done
"""
APT_CACHE = """#!/bin/bash
grep -x "$2" "$ROOM/packages" || true
"""
MAVEN = """#!/bin/bash
echo mvn >>"$ROOM/calls"
folder=${!#}
touch "${folder#-DoutputDirectory=}/a.jar"
[ ! -e "$ROOM/broken" ]
"""


class Room:
    """A folder with what the machine has; `run` starts a script in namespaces of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.upload = folder / "upload"
        for name in ("bin", "over", "upload"):
            (folder / name).mkdir()
        shutil.copy(VAGRANT / "kafka-node.sh", self.upload)
        shutil.copy(VAGRANT.parent / "kafka" / "pom.xml", self.upload)
        self.environment = {
            **os.environ,
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "SYSTEM": os.environ["PATH"],
            "ROOM": str(folder),
            "OVER": str(folder / "over"),
            "UPLOAD": str(self.upload),
            "LIBS": "/nowhere",
            "no_proxy": "127.0.0.1",
        }

    def has(self, name: str, script: str) -> None:
        (self.folder / "bin" / name).write_text(script)
        (self.folder / "bin" / name).chmod(0o755)

    def jars(self, *names: str) -> Path:
        """A folder with empty jars, to install from."""
        folder = self.folder / "libs"
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).touch()
        self.environment["LIBS"] = str(folder)
        return folder

    def packages(self, installed: str, *offered: str) -> None:
        """A Java of that version is installed, and a release offers these packages."""
        (self.folder / "java").write_text(installed)
        (self.folder / "packages").write_text("".join(f"{name}\n" for name in offered))
        for name, script in {"java": JAVA, "apt-get": APT_GET, "apt-cache": APT_CACHE}.items():
            self.has(name, script)

    def without(self, *names: str) -> None:
        """The programs of this machine, but not these."""
        for folder in self.environment["SYSTEM"].split(":"):
            for program in Path(folder).glob("*"):
                with contextlib.suppress(FileExistsError):
                    (self.folder / "bin" / program.name).symlink_to(program)
        for name in names:
            (self.folder / "bin" / name).unlink()
        self.environment["PATH"] = str(self.folder / "bin")

    def run(self, script: str, *namespaces: str) -> subprocess.CompletedProcess[str]:
        command = [*UNSHARE, *namespaces, "bash", "-c", PRIVATE + script]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=False)

    def calls(self) -> list[str]:
        """Those since the last time this was asked."""
        file = self.folder / "calls"
        told = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return told


@pytest.fixture
def room(tmp_path: Path) -> Room:
    if obstacle():
        pytest.skip(obstacle())
    return Room(tmp_path)


def changed(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stdout + done.stderr
    plain = done.stdout.replace("\x1b[0m", "")  # Maven resets colours it never set
    return [line.removeprefix("changed: ") for line in plain.splitlines()]


# -- packages ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offered", ["openjdk-17-jre-headless", "openjdk-21-jre-headless"])
def test_a_java_too_old_is_replaced_by_one_of_the_releases_packages(room: Room, offered: str) -> None:
    room.jars("a.jar")
    room.packages("11", offered, "default-jre-headless")
    assert changed(room.run(INSTALL))[0] == f"packages {offered}"
    assert room.calls() == ["apt-get update -qq", f"apt-get install -y -qq --no-install-recommends {offered}"]
    assert "packages" not in room.run(INSTALL).stdout
    assert room.calls() == []


@pytest.mark.parametrize("offered", [(), ("default-jre-headless",)], ids=["none", "an old one"])
def test_a_release_without_a_java_that_kafka_runs_on_is_refused_with_the_reason(room: Room, offered: tuple[str, ...]) -> None:
    room.jars("a.jar")
    room.packages("11", *offered)
    done = room.run(f"{INSTALL} || {{ code=$?; ls /opt; exit $code; }}")
    assert done.returncode == 1
    assert "no Java 17 or newer" in done.stderr
    assert "kafka" not in done.stdout, "nothing is installed for a broker that cannot run"


def test_programs_that_a_bare_machine_lacks_are_installed_after_one_update(room: Room) -> None:
    room.jars("a.jar")
    room.packages("11", "openjdk-17-jre-headless")
    room.without("pgrep", "setpriv")
    assert changed(room.run(INSTALL))[:3] == ["packages procps", "packages util-linux", "packages openjdk-17-jre-headless"]
    assert [call.split()[-1] for call in room.calls()] == ["-qq", "procps", "util-linux", "openjdk-17-jre-headless"]


# -- jars ----------------------------------------------------------------------------------------------------------------------


def test_jars_of_a_folder_replace_the_ones_before_as_a_whole(room: Room) -> None:
    room.packages("17")
    room.jars("a.jar", "b.jar")
    done = room.run(f"{INSTALL}; rm $LIBS/b.jar; touch $LIBS/c.jar; {INSTALL}; {INSTALL}; ls /opt/kafka/libs")
    assert changed(done) == [
        "/opt/kafka/libs from folder",
        "/opt/kafka/kafka-node",
        "/opt/kafka/libs from folder",
        "a.jar",
        "c.jar",
    ]


def test_jars_come_from_an_address_once(room: Room) -> None:
    room.packages("17")
    room.without("curl")
    with served(room.folder / "www", "kafka_2.13-4.4.0") as (address, asked):
        room.environment["KAFKA_ARCHIVE"] = address
        done = room.run(f"{INSTALL}; {INSTALL}; ls /opt/kafka/libs")
    assert changed(done) == ["packages curl ca-certificates", "/opt/kafka/libs from archive", "/opt/kafka/kafka-node", "kafka-a.jar"]
    assert asked == ["/kafka.tgz"]


def test_an_address_that_has_no_archive_ends_provisioning_and_leaves_the_jars_that_were_there(room: Room) -> None:
    room.packages("17")
    with served(room.folder / "www", "kafka_2.13-4.4.0") as (address, _):
        room.environment["KAFKA_ARCHIVE"] = address
        done = room.run(f"{INSTALL}; KAFKA_ARCHIVE={address}.asc {INSTALL} || {{ code=$?; ls /opt/kafka/libs; exit $code; }}")
    assert done.returncode not in (0, 1)
    assert "404" in done.stderr
    assert done.stdout.splitlines()[-1] == "kafka-a.jar"


def test_maven_is_installed_where_it_lacks_and_when_it_fails_the_jars_before_stay(room: Room) -> None:
    room.packages("17")
    room.without("mvn")
    room.has("mvn", MAVEN)
    (room.folder / "bin" / "mvn").rename(room.folder / "mvn")
    broken = f"touch $ROOM/broken; KAFKA_VERSION=4.3.0 {INSTALL} || {{ code=$?; cat /opt/kafka/libs/.from; exit $code; }}"
    done = room.run(f"{INSTALL}; {INSTALL}; {broken}")
    assert done.returncode == 1
    first, *told = done.stdout.splitlines()
    assert first == "changed: packages maven"
    assert told[-1].startswith("maven  "), "of no chosen version"
    assert [call.split()[-1] for call in room.calls()] == ["-qq", "maven", "mvn", "mvn"]


@pytest.mark.skipif(bool(prerequisites.check()), reason="; ".join(prerequisites.check()))
def test_jars_come_from_maven_and_are_those_of_every_other_backend(room: Room) -> None:
    done = room.run(f"{INSTALL}; KAFKA_VERSION= {INSTALL}; cd /opt/kafka/libs; cksum *.jar >$ROOM/got")
    assert changed(done) == ["/opt/kafka/libs from maven", "/opt/kafka/kafka-node"]
    expected = subprocess.run("cksum *.jar", shell=True, cwd=kafka_jars(KAFKA), capture_output=True, text=True, timeout=60, check=True)
    assert (room.folder / "got").read_text() == expected.stdout
    assert "kafka-clients" in expected.stdout


@contextlib.contextmanager
def served(folder: Path, name: str) -> Iterator[tuple[str, list[str]]]:
    """The address of a kafka_….tgz with one empty jar, and what was asked for."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, *_: object) -> None:
            asked.append(self.path)

        def log_message(self, *_: object) -> None:
            pass

    libs = folder / name / "libs"
    libs.mkdir(parents=True)
    (libs / "kafka-a.jar").touch()
    with tarfile.open(folder / "kafka.tgz", "w:gz") as archive:
        archive.add(folder / name, name)
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/kafka.tgz", asked
        finally:
            server.shutdown()
            thread.join(10)


# -- service -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def node(room: Room) -> Room:
    """A machine with systemd that is to become the only node."""
    room.packages("17")
    room.has("systemctl", SYSTEMCTL)
    room.jars("a.jar")
    shutil.copytree(BROKER, room.upload / "settings")
    write_properties(room.upload / "settings" / "broker.properties", expand(1))
    (room.upload / "seed").mkdir()
    (room.upload / "seed" / "meta.properties").write_text("cluster.id=x\ndirectory.id=x\nnode.id=9\n")
    room.environment.update(NODE_ID="1", HOST="127.0.0.1", VOTERS="1@127.0.0.1:9093", CLUSTER_ID="abcdefghijklmnopqrstug")
    return room


SYSTEMD = "ip link set lo up; mkdir -p /run/systemd/system\n"
RELOAD = ["systemctl daemon-reload", "systemctl is-enabled -q kafka"]


def test_with_systemd_a_node_is_a_unit_that_is_enabled_and_started_and_is_left_alone_then(node: Room) -> None:
    mark = 'echo "-- $(cat $ROOM/calls | wc -l)"'
    change = "echo num.partitions=7 >>/etc/kafka/server.properties"
    status = "/opt/kafka/kafka-node status; cat /var/lib/kafka/data/meta.properties; id -u kafka >/dev/null"
    done = node.run(f"{SYSTEMD}{PROVISION}; {mark}; {PROVISION}; {mark}; {change}; {PROVISION}; {mark}; {status}", "--net")
    told = changed(done)
    calls = node.calls()
    first, again, mended, end = [i for i, line in enumerate(told) if line.startswith("-- ")] + [len(told)]
    assert told[:first] == [
        "/opt/kafka/libs from folder",
        "/opt/kafka/kafka-node",
        "user kafka",
        "/var/lib/kafka",
        "/var/log/kafka",
        "/var/lib/kafka/seed",
        "/etc/kafka/server.properties",
        "/etc/kafka/jvm.options",
        "/etc/kafka/log4j2.yaml",
        "/etc/kafka/cluster.id",
        "/etc/systemd/system/kafka.service",
        "kafka starts at boot",
        "broker started",
    ]
    assert told[first + 1 : again] == ["nothing to change"]
    assert told[again + 1 : mended] == ["/etc/kafka/server.properties", "broker started"]
    assert told[mended + 1] == "running"
    assert told[mended + 2] == "cluster.id=abcdefghijklmnopqrstug"
    assert told[mended + 4 : end] == ["node.id=1"]
    asked = [int(told[i].removeprefix("-- ")) for i in (first, again, mended)]
    assert calls[: asked[0]] == [*RELOAD, "systemctl enable -q kafka", "systemctl stop kafka", "systemctl start kafka"]
    assert calls[asked[0] : asked[1]] == RELOAD
    assert calls[asked[1] : asked[2]] == [*RELOAD, "systemctl stop kafka", "systemctl start kafka"]


def test_with_systemd_a_node_is_stopped_by_its_unit(node: Room) -> None:
    stop = "/opt/kafka/kafka-node stop; echo $?; /opt/kafka/kafka-node status || echo $?"
    done = node.run(f"{SYSTEMD}{PROVISION} >/dev/null; {stop}", "--net")
    assert done.stdout.split() == ["0", "down", "3"], done.stderr
    assert node.calls()[-1] == "systemctl stop kafka"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing; apt-get install -y systemd")
@pytest.mark.parametrize("fault", ["", "/^ExecStart=/a Nonsense=1", "s,^ExecStart=.*,ExecStart=/nowhere/kafka-node,"])
def test_systemd_itself_finds_no_fault_with_the_unit_and_would_find_one(node: Room, fault: str) -> None:
    unit = "/etc/systemd/system/kafka.service"
    verify = f"systemd-analyze verify {unit} || exit"  # not the last command, or it would be process 1, which logs to the kernel
    done = node.run(f"{SYSTEMD}{PROVISION} >/dev/null; sed -i '{fault}' {unit}; {verify}", "--net")
    told = [line for line in done.stderr.splitlines() if "kafka" in line]  # it looks at the machine's other units, too
    assert bool(told) == bool(fault), done.stderr
    assert fault or done.returncode == 0


def test_a_node_whose_broker_ends_at_once_is_not_provisioned_and_shows_its_log(node: Room) -> None:
    node.has("java", JAVA.replace("import signal", 'import time; print("no memory"); time.sleep(1); raise SystemExit; import signal'))
    done = node.run(SYSTEMD + str(PROVISION), "--net")
    assert done.returncode == 1
    assert "no memory" in done.stderr
