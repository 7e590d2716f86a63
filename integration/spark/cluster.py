"""Starts a standalone Spark cluster on this machine: a master and workers, as processes from the jars that pyspark ships.

Invariant: no process outlives its owner. Master and workers are children of a guardian; an executor ends when the connection to its worker
does, a Python worker when its executor does. Each worker has a host of its own (127.0.0.1, 127.0.0.2, …), because Spark never starts a
speculative copy of a task on the host of the first attempt.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from integration.host import prerequisites
from integration.host.ports import HOST, Ports
from integration.host.ward import Ward, guard, tail
from integration.waiting import until

__all__ = ["Executor", "StandaloneSpark"]

HOSTS = ("127.0.0.1", "127.0.0.2")
DAEMON_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
WORKER_MEMORY = "1g"  # memory of a worker's executors
EXECUTOR_MEMORY = "640m"
JOB_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # a test of seconds ends before the optimizing compiler pays off
READY_S = 120.0  # seconds: the JVMs of a machine that does other things as well
ANSWER_S = 10.0
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
ROOT = Path(__file__).resolve().parents[2]


@attrs.frozen
class Executor:
    host: str
    number: str
    pid: int


class StandaloneSpark:
    """A master and one worker for each of `hosts`, up inside a `with` block. Each worker has one core, for one task at a time."""

    def __init__(self, hosts: tuple[str, ...] = HOSTS, scratch: Path | str | None = None) -> None:
        self.hosts = hosts
        self.parent = Path(scratch) if scratch else Path(tempfile.gettempdir())
        self.ward: Ward | None = None
        self.ports: Ports | None = None
        self.master = ""  # the URL for `SparkSession.builder.master`
        self.page = 0  # the port of the master's web page

    # -- life --------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        prerequisites.require(*filter(None, [prerequisites.missing_java()]))
        self.ward, self.ports = guard(self.parent), Ports()
        try:
            self.launch_master()
            for host in self.hosts:
                self.launch_worker(host)
            self.wait_workers()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, Exception):
            error.add_note(f"logs of Spark's processes are kept in {self.keep_logs(Path(tempfile.mkdtemp(prefix='pykafka4-spark-')))}")
        ward, self.ward = self.ward, None
        if ward is not None:
            ward.close()
        ports, self.ports = self.ports, None
        if ports is not None:
            ports.close()

    def launch_master(self) -> None:
        assert self.ports is not None
        port, self.page = self.ports.take(), self.ports.take()
        self.ports.release(port, self.page)
        self.master = f"spark://{HOST}:{port}"
        self.launch("master", HOST, "master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(self.page))

    def launch_worker(self, host: str) -> None:
        """Also again after the worker was killed."""
        room = ["--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(self.folder(host))]
        self.launch(host, host, "worker.Worker", "--host", host, "--webui-port", "0", *room, self.master)

    def launch(self, name: str, host: str, kind: str, *arguments: str) -> None:
        scratch = self.guarded().scratch
        here = [f"SPARK_LOCAL_IP={host}", f"SPARK_LOCAL_DIRS={scratch / 'local'}"]
        environment = [f"SPARK_HOME={spark_home()}", f"SPARK_SCALA_VERSION={scala()}", *here]
        java = [prerequisites.java(), *DAEMON_JVM, "-cp", f"{spark_home()}/jars/*", f"org.apache.spark.deploy.{kind}"]
        self.guarded().start(name, ["env", *environment, *java, *arguments], self.log(name), scratch)

    # -- for a job ---------------------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, str]:
        """The settings of a session for a small job, in addition to a driver's own settings."""
        return {
            "spark.master": self.master,
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": JOB_JVM,
            **{f"spark.executorEnv.{name}": value for name, value in environment().items()},
        }

    def wait_executors(self, count: int | None = None, other_than: tuple[Executor, ...] = ()) -> list[Executor]:
        """Wait until `count` executors run (None: one for each host) that are not in `other_than`."""
        wanted = len(self.hosts) if count is None else count

        def enough() -> list[Executor] | None:
            found = [executor for executor in self.executors() if executor not in other_than]
            return found if len(found) >= wanted else None

        return until(enough, READY_S, f"{wanted} executors")

    def executors(self) -> list[Executor]:
        return [executor for host in self.hosts for executor in executors(host, self.pid(host))]

    def python_workers(self, executor: Executor) -> list[int]:
        """The processes that run Python code of an executor's tasks: the children of its daemon."""
        return [worker.pid for daemon in children(executor.pid) for worker in children(daemon.pid) if alive(worker.pid)]

    def kill(self, executor: Executor) -> None:
        """Also wait for the executor's Python workers, which end a moment later."""
        python = self.python_workers(executor)
        os.kill(executor.pid, signal.SIGKILL)
        until(lambda: not any(map(alive, [executor.pid, *python])), READY_S, f"{executor} and its Python workers to end")

    def kill_python(self, executor: Executor) -> int:
        found = self.python_workers(executor)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return len(found)

    def kill_worker(self, host: str) -> None:
        before = executors(host, self.pid(host))
        self.guarded().signal(host, signal.SIGKILL)
        until(lambda: not any(alive(executor.pid) for executor in before), READY_S, f"the executors of {host} to end with their worker")

    # -- a driver in a process of its own ----------------------------------------------------------------------------------

    def start_driver(self, name: str, *argv: str) -> None:
        """The driver, this Python with `argv`, ends with this cluster; its output is among the logs."""
        words = [f"{key}={value}" for key, value in {**environment(), "SPARK_LOCAL_IP": HOST}.items()]
        self.guarded().start(name, ["env", *words, sys.executable, *argv], self.log(name), ROOT)

    def driver_ended(self, name: str) -> int | None:
        """None while the driver runs."""
        return self.guarded().status()[name].returncode

    def kill_driver(self, name: str) -> None:
        """Kill a driver and its JVM, which are a process group, and wait until its executors have ended, too."""
        os.killpg(self.pid(name), signal.SIGKILL)
        until(lambda: self.driver_ended(name) is not None, READY_S, f"{name} to end")
        until(lambda: not self.executors(), READY_S, f"the executors of {name} to end")

    # -- state of the cluster ----------------------------------------------------------------------------------------------

    def wait_workers(self, count: int | None = None) -> None:
        """`count` None: all workers."""
        wanted = len(self.hosts) if count is None else count
        until(lambda: self.report().get("aliveworkers") == wanted, READY_S, f"{wanted} workers of Spark to register", forgive=(OSError,))

    def report(self) -> dict[str, Any]:
        dead = [name for name, child in self.guarded().status().items() if child.returncode is not None]
        if "master" in dead:
            raise RuntimeError(f"Spark's master ended: {tail(self.log('master'))}")
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"http://{HOST}:{self.page}/json/", timeout=ANSWER_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def keep_logs(self, to: Path | str) -> Path:
        """Copy the output of all processes into the folder `to`, which outlives the cluster."""
        folder = Path(to)
        folder.mkdir(parents=True, exist_ok=True)
        if self.ward is not None:
            for log in self.ward.scratch.glob("*.log"):
                shutil.copy(log, folder)
            for log in self.ward.scratch.glob("work-*/app-*/*/std*"):
                shutil.copy(log, folder / "-".join(log.relative_to(self.ward.scratch).parts))
        return folder

    def log(self, name: str) -> Path:
        return self.guarded().scratch / f"{name}.log"

    def folder(self, host: str) -> Path:
        return self.guarded().scratch / f"work-{host}"

    def pid(self, name: str) -> int:
        return self.guarded().status()[name].pid

    def guarded(self) -> Ward:
        if self.ward is None:
            raise RuntimeError("this Spark cluster is not up: use it in a with statement")
        return self.ward


def spark_home() -> Path:
    """The folder of pyspark, which has the jars."""
    import pyspark  # only here: offline tests import this package and do without

    return Path(pyspark.__file__).parent


def scala() -> str:
    """A worker needs the Scala version of the jars to start an executor; without it the worker looks for build folders."""
    core = next((spark_home() / "jars").glob("spark-core_*.jar"))
    return core.name.split("_")[1].split("-")[0]


def environment() -> Mapping[str, str]:
    """The environment in which Python workers find this checkout, and the packages that this process finds."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}


def executors(host: str, worker: int) -> Iterator[Executor]:
    for child in children(worker):
        words = command(child)
        if EXECUTOR in words and "--executor-id" in words:
            yield Executor(host, words[words.index("--executor-id") + 1], child.pid)


def children(pid: int) -> list[Any]:
    import psutil  # only here: offline tests import this package and do without

    try:
        return list(psutil.Process(pid).children())
    except psutil.NoSuchProcess:
        return []


def command(process: Any) -> list[str]:
    import psutil

    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def alive(pid: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
