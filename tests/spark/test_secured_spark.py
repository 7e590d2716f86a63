"""Over TLS with certificates on both sides, and SASL: what a writer needs travels as text, and nothing that Spark shows has a secret."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from integration.local.cluster import LocalCluster
from integration.security.settings import Security
from pykafka4.spark import partition_writer
from tests.secrets.planted import Planted
from tests.spark.tasks import FromFile, Logged

pytestmark = [
    pytest.mark.spark,
    pytest.mark.cluster,
    pytest.mark.lengthy,
    pytest.mark.backend("local"),
    pytest.mark.timeout(600),  # the first test starts Spark and a broker
    pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"),
]

PLANTED = Planted()
PASSWORD, WRONG = PLANTED.plant("password"), PLANTED.plant("wrong password")
ROWS = 30


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCluster]:
    """One broker that wants a certificate and a password of its clients."""
    security = Security(users={"alice": PASSWORD}, mechanisms=("SCRAM-SHA-512",), client_auth="required")
    with LocalCluster(1, security=security) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def config(guarded: LocalCluster) -> dict[str, Any]:
    """All files as text."""
    found = dict(guarded.client)
    for file, text in (("ssl_cafile", "ssl_ca_pem"), ("ssl_certfile", "ssl_cert_pem"), ("ssl_keyfile", "ssl_key_pem")):
        found[text] = Path(found.pop(file)).read_text()
    PLANTED.document("private key", found["ssl_key_pem"].encode())
    return found


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([Row(value=f"row {n}") for n in range(ROWS)]).repartition(3)


def test_the_password_travels_or_is_read_where_it_is_needed(guarded: LocalCluster, config, frame: DataFrame, topic: str, tmp_path) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    read = partition_writer({**config, "sasl_password": FromFile(str(tmp_path / "password"))}, topic=topic)
    for writer in (partition_writer(config, topic=topic), read):
        frame.foreachPartition(writer)
    found = sorted(record.value.decode() for records in guarded.log(topic).values() for record in records)
    assert found == sorted(2 * [f"row {n}" for n in range(ROWS)])
    assert "password" not in PLANTED.found(cloudpickle.dumps(read).decode("latin-1"))


def pages(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """What the web interface and its REST API tell."""
    context = spark.sparkContext
    port = str(context.uiWebUrl).rpartition(":")[2]
    api = f"api/v1/applications/{context.applicationId}"
    told = [f"{api}/{path}" for path in ("environment", "jobs", "stages?details=true", "allexecutors", "sql?details=true")]
    for path in (*told, "jobs/", "stages/", "environment/", "executors/"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
            yield path.removeprefix(f"{api}/"), answer.read().decode()


def plans(frame: DataFrame, writer: Callable[..., None]) -> Iterator[tuple[str, str]]:
    yield "plan", frame._jdf.queryExecution().toString()
    yield "explain", frame.sparkSession._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "extended")
    rdd = frame.rdd.mapPartitions(writer)
    yield "lineage", (rdd.toDebugString() or b"").decode()
    yield "rdd", f"{rdd!r} {rdd._jrdd.toString()} {rdd._jrdd.rdd().name()}"


@pytest.mark.parametrize("password", [PASSWORD, WRONG], ids=["right", "wrong"])
def test_spark_shows_no_secret(spark: SparkSession, config, frame: DataFrame, topic: str, tmp_path: Path, password: str, capfd) -> None:
    """Neither in plans, nor in the error of a task, on the driver's side or an executor's, in its logs and its web interface."""
    writer = partition_writer({**config, "sasl_password": password, "client_id": topic}, topic=topic)
    log = tmp_path / "worker.log"
    spark.sparkContext.setLogLevel("DEBUG")
    try:
        if password == PASSWORD:
            frame.foreachPartition(Logged(writer, str(log)))
            error = ""
        else:
            with pytest.raises(PySparkException, match="the broker refused the credentials") as caught:
                frame.foreachPartition(Logged(writer, str(log)))
            error = f"{caught.value} {caught.value!r} {caught.getrepr(style='native')}"
    finally:
        spark.sparkContext.setLogLevel("OFF")
    driver = Path(spark._jvm.java.lang.System.getProperty("tests.log"))
    told = {"error": error, "worker": log.read_text(), "driver": driver.read_text(), "writer": repr(writer)}
    assert "connected to broker" in told["worker"] if password == PASSWORD else "refused" in told["worker"]
    assert topic in told["writer"]
    assert "foreachPartition" in told["driver"]
    told |= {**dict(pages(spark)), **dict(plans(frame, writer)), "output": "".join(capfd.readouterr())}
    assert "foreachPartition" in told["jobs"]
    assert {where: sorted(found) for where, text in told.items() if (found := PLANTED.found(text))} == {}


def of_java(guarded: LocalCluster, password: str) -> dict[str, str]:
    """Options of `format("pykafka4")` for the same listener, as properties of Java with the certificates as text."""
    options = guarded.client
    names = {"ssl_cafile": "truststore.certificates", "ssl_certfile": "keystore.certificate.chain", "ssl_keyfile": "keystore.key"}
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{password}";'
    properties = {f"ssl.{name}": Path(options[file]).read_text() for file, name in names.items()}
    properties |= {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": login}
    return {f"kafka.{name}": value for name, value in {**properties, "bootstrap.servers": guarded.bootstrap}.items()}


def test_what_is_written_over_tls_is_read_over_tls(spark: SparkSession, guarded: LocalCluster, frame: DataFrame, topic: str) -> None:
    guarded.create_topic(topic, 3, 1)
    kafka = of_java(guarded, PASSWORD)
    frame.write.format("pykafka4").options(**kafka, topic=topic).mode("append").save()
    found = spark.read.format("pykafka4").options(**kafka, subscribe=topic).load()
    assert sorted(row.value.decode() for row in found.collect()) == sorted(f"row {n}" for n in range(ROWS))


def copied(spark: SparkSession, kafka: dict[str, str], topic: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Read and write in a batch and in a stream. What Spark tells of that, by place; errors among it."""
    reads = {**kafka, "subscribe": topic, "kafkaConsumer.pollTimeoutMs": "10000"}
    source = spark.read.format("pykafka4").options(**reads).load()
    yield "plans", outcome(lambda: dict(plans(source.select("value"), len)))  # Spark looks the partitions up for a plan
    sink = spark.range(3).selectExpr("cast(id as string) as value").write.format("pykafka4").options(**kafka, topic=topic)
    stream = spark.readStream.format("pykafka4").options(**reads, startingOffsets="earliest").load().select("value")
    copy = stream.writeStream.format("pykafka4").options(**kafka, topic=topic, checkpointLocation=str(folder))
    for name, job in {"read": source.collect, "write": sink.mode("append").save}.items():
        yield name, outcome(job)
    query = copy.trigger(availableNow=True).start()
    yield "stream", outcome(lambda: query.awaitTermination(60))
    yield "query", f"{query.exception()} {query.lastProgress} {query.status} {query._jsq.toString()}"
    yield "checkpoint", "".join(path.read_text("latin-1") for path in folder.rglob("*") if path.is_file())


def outcome(job: Callable[[], object]) -> str:
    try:
        return f"well: {job()}"
    except PySparkException as error:
        return f"error: {error} {error!r}"


@pytest.mark.parametrize("password", [PASSWORD, WRONG], ids=["right", "wrong"])
def test_spark_shows_no_secret_of_the_format(spark, guarded: LocalCluster, topic: str, tmp_path: Path, password: str, capfd) -> None:
    """Neither in plans, nor in errors, the checkpoint, the log of the driver, and the web interface."""
    guarded.create_topic(topic, 1, 1)
    PLANTED.document("private key", Path(guarded.client["ssl_keyfile"]).read_bytes())
    spark.sparkContext.setLogLevel("DEBUG")
    try:
        told = dict(copied(spark, of_java(guarded, password), topic, tmp_path / "checkpoint"))
        told |= dict(pages(spark))
    finally:
        spark.sparkContext.setLogLevel("OFF")
    for name in ("read", "write", "stream"):
        assert told[name].startswith("well") if password == PASSWORD else "refused the credentials" in told[name], told[name]
    told |= {"driver": Path(spark._jvm.java.lang.System.getProperty("tests.log")).read_text(), "output": "".join(capfd.readouterr())}
    assert {where: sorted(found) for where, text in told.items() if (found := PLANTED.found(text))} == {}
