"""Declarations against Kafka's own JSON. Rule: every field of every declared message, both ways, in order."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from integration.kafka.jars import kafka_clients_jar
from pykafka4.core.network.flight import MUTES_FROM
from pykafka4.wire.protocol.fields import NO_UUID, Kind, Versions, array, default_of, spec_of
from pykafka4.wire.protocol.messages_cluster import MetadataRequest
from pykafka4.wire.protocol.schema import REQUESTS, Data, Message
from tests.wire.wire_samples import messages, name_of

pytestmark = pytest.mark.jars
# Versions that Kafka 4.0 dropped and older brokers still need; the fields are in the JSON all the same.
LOWEST = {"OffsetForLeaderEpoch": 0, "Fetch": 3, "CreateTopics": 0, "DeleteTopics": 0}
OLDER = {f"{name}{kind}": low for name, low in LOWEST.items() for kind in ("Request", "Response")}
# Where we mean something else than Kafka's own client; the docstring of the message says why.
OURS = {("MetadataRequest", "allow_auto_topic_creation"): {"ignorable": True}}
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)

Load = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="session")
def load() -> Load:
    """Kafka's definition by message name, out of the kafka-clients jar."""
    with zipfile.ZipFile(kafka_clients_jar()) as archive:
        texts = {path: archive.read(path).decode() for path in archive.namelist() if path.startswith("common/message/")}
    return lambda name: dict(json.loads(COMMENT.sub("", texts[f"common/message/{name}.json"])))


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def expected_default(row: dict[str, Any]) -> Any:
    """Kafka's default, also where the JSON leaves it out."""
    kind, given = row["type"], row.get("default")
    if str(given) == "null" or (kind == "records" and given is None):
        return None
    if kind.startswith("[]"):
        return []
    if kind == "string":
        return given or ""
    if kind == "bool":
        return str(given).lower() == "true"
    return {"bytes": b"", "uuid": NO_UUID}.get(kind, int(str(given or 0), 0))


def wire_name(type: Any) -> str:
    if isinstance(type, array):
        return "[]" + wire_name(type.of)
    return type.name if isinstance(type, Kind) else "struct"


def expected_type(text: str) -> str:
    prefix, bare = ("[]", text[2:]) if text.startswith("[]") else ("", text)
    return prefix + ("struct" if bare[0].isupper() else bare)


def declared_rows(cls: type) -> list[dict[str, Any]]:
    rows = []
    for field in attrs.fields(cls):
        spec = spec_of(field)
        single = not isinstance(spec.type, Kind | array)
        rows.append(
            {
                "name": field.name,
                "type": wire_name(spec.type),
                "versions": spec.versions,
                "nullable": spec.nullable,
                "tag": spec.tag,
                "tagged": spec.tagged,
                "ignorable": spec.ignorable,
                "default": "its own" if single and spec.nullable == Versions(1, 0) else default_of(field),
            }
        )
    return rows


def json_rows(fields: list[dict[str, Any]], ours: Versions) -> list[dict[str, Any]]:
    rows = []
    for row in fields:
        versions = Versions.parse(row["versions"])
        if versions.lo > ours.hi:
            continue
        kind = expected_type(row["type"])
        rows.append(
            {
                "name": snake(row["name"]),
                "type": kind,
                "versions": versions,
                "nullable": Versions.parse(row.get("nullableVersions")),
                "tag": row.get("tag"),
                "tagged": Versions.parse(row.get("taggedVersions")),
                "ignorable": str(row.get("ignorable", False)).lower() == "true",
                "default": "its own" if kind == "struct" and "nullableVersions" not in row else expected_default(row),
            }
        )
    return rows


def compare(cls: type, fields: list[dict[str, Any]], common: dict[str, Any], ours: Versions) -> int:
    theirs = [{**row, **OURS.get((cls.__qualname__, row["name"]), {})} for row in json_rows(fields, ours)]
    assert declared_rows(cls) == theirs, cls.__qualname__
    compared = len(attrs.fields(cls))
    by_name = {snake(row["name"]): row for row in fields}
    for field in attrs.fields(cls):
        kind = spec_of(field).type
        inner = kind.of if isinstance(kind, array) else kind
        if not isinstance(inner, Kind):
            row = by_name[field.name]
            compared += compare(inner, row.get("fields") or common[row["type"].removeprefix("[]")], common, ours)
    return compared


@pytest.mark.parametrize("cls", messages(), ids=name_of)
def test_every_field_is_kafkas(cls: type[Message], load: Load) -> None:
    kafka = load(cls.__name__)
    common = {struct["name"]: struct["fields"] for struct in kafka.get("commonStructs", [])}
    assert compare(cls, kafka["fields"], common, cls.versions) >= len(attrs.fields(cls))


@pytest.mark.parametrize("cls", messages(), ids=name_of)
def test_versions_and_key_are_kafkas_without_the_unstable_one(cls: type[Message], load: Load) -> None:
    kafka = load(cls.__name__)
    assert cls.flexible == Versions.parse(kafka["flexibleVersions"])
    valid = Versions.parse(kafka["validVersions"])
    if issubclass(cls, Data):
        assert cls.versions == valid
        return
    assert cls.api_key == kafka["apiKey"]  # type: ignore[attr-defined]
    unstable = load(re.sub("Response$", "Request", cls.__name__)).get("latestVersionUnstable", False)
    assert cls.versions == Versions(OLDER.get(cls.__name__, valid.lo), valid.hi - bool(unstable))


def test_a_wrong_declaration_would_be_noticed(load: Load) -> None:
    """The comparison itself must be able to fail: each property of a field is changed in turn."""
    kafka = load("MetadataRequest")
    changes = [{"versions": "5+"}, {"default": "false"}, {"type": "string"}, {"nullableVersions": "4+"}, {"tag": 0}]
    for change in changes:
        fields = [{**row, **change} if row["name"] == "AllowAutoTopicCreation" else row for row in kafka["fields"]]
        with pytest.raises(AssertionError):
            compare(MetadataRequest, fields, {}, MetadataRequest.versions)
    fields = [{**row, "ignorable": True} if row["name"] == "IncludeTopicAuthorizedOperations" else row for row in kafka["fields"]]
    with pytest.raises(AssertionError):
        compare(MetadataRequest, fields, {}, MetadataRequest.versions)
    with pytest.raises(AssertionError):
        compare(MetadataRequest, kafka["fields"][::-1], {}, MetadataRequest.versions)


def test_the_client_throttles_from_the_versions_on_that_kafka_names() -> None:
    """Kafka's comments name them, but for Produce."""
    named = re.compile(r"version (\d+), on quota violation")
    found = {"Produce": 6}
    with zipfile.ZipFile(kafka_clients_jar()) as archive:
        for cls in (cls for cls in REQUESTS.values() if cls.__module__.startswith("pykafka4.")):
            match = named.search(archive.read(f"common/message/{cls.response.__name__}.json").decode())
            if match is not None:
                found[cls.__name__.removesuffix("Request")] = int(match[1])
    assert found == MUTES_FROM
