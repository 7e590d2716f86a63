"""The guide to security: every recipe is accepted as options, every message that it explains is one that the code makes."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import time
from pathlib import Path
from typing import Any

import pytest

from pykafka4.core.sasl.oauthbearer import token_of
from pykafka4.errors.codes import BY_NAME
from pykafka4.options.config import ConsumerConfig, ProducerConfig

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs/guide"
PAGE = (GUIDE / "security.md").read_text()
RECIPES = (GUIDE / "security-recipes.md").read_text()
SIGNER = "aws_msk_iam_sasl_signer"
OWN = "Your own cluster"  # on the page about security itself
CLUSTERS = (
    "Confluent Cloud",
    "Amazon MSK with SCRAM",
    "Amazon MSK with IAM",
    "Azure Event Hubs",
    "Redpanda",
    "Strimzi",
)


def code_of(cluster: str) -> list[str]:
    """The Python blocks of its recipe that have options."""
    text = f"{RECIPES}\n{PAGE}".partition(f"## {cluster}\n")[2].partition("\n## ")[0]
    return [code for code in re.findall(r"^```py(?:thon)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if "KAFKA:" in code]


BLOCKS = [pytest.param(code, id=f"{cluster} {number}") for cluster in (OWN, *CLUSTERS) for number, code in enumerate(code_of(cluster), 1)]


def run(code: str) -> dict[str, Any]:
    if SIGNER in code and importlib.util.find_spec(SIGNER) is None:
        pytest.skip("needs aws-msk-iam-sasl-signer-python: pip install '.[msk]'")
    made: dict[str, Any] = {}
    exec(code, made)
    return made


def test_there_is_a_recipe_for_each_kind_of_cluster() -> None:
    assert re.findall(r"^## (.*)$", RECIPES, re.MULTILINE) == list(CLUSTERS)
    assert [cluster for cluster in (OWN, *CLUSTERS) if not code_of(cluster)] == []


@pytest.mark.parametrize("code", BLOCKS)
def test_a_recipe_is_complete_and_accepted(code: str, caplog: pytest.LogCaptureFixture) -> None:
    options = run(code)["KAFKA"]
    config = ProducerConfig.parse(options)
    assert ConsumerConfig.parse({**options, "group_id": "x"})
    assert config.encrypts
    assert re.search(r":\d+$", options["bootstrap_servers"]), "the port"
    assert not caplog.records, "it warns of nothing"


def test_amazons_package_makes_a_token_that_the_client_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """From credentials of nobody: it signs an address, and asks no server."""
    (code,) = code_of("Amazon MSK with IAM")
    made = run(code)
    for name, value in {"ACCESS_KEY_ID": "AKIAEXAMPLE", "SECRET_ACCESS_KEY": "none", "EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    token = token_of(made["KAFKA"]["sasl_oauth_token"](), time.time())
    assert token.expires_at is not None
    assert 0 < token.expires_at - time.time() <= 900, "seconds, not milliseconds"


@functools.cache
def texts() -> list[str]:
    """Every text in the source; one with values in it is as many texts as it has parts."""
    nodes = [node for path in (ROOT / "pykafka4").rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def explained() -> list[str]:
    table = PAGE[PAGE.index("| message | cause | cure |") :].partition("\n\n")[0].splitlines()[2:]
    return [message for row in table for message in re.findall(r"`([^`]+)`", row.split("|")[1])]


@pytest.mark.parametrize("message", explained())
def test_a_message_that_is_explained_is_one_that_the_code_makes(message: str) -> None:
    for part in filter(None, (part.strip() for part in message.split("…"))):
        assert part in BY_NAME or any(part in text for text in texts()), part
