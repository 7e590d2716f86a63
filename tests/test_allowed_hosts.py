"""allowed_hosts: names match by suffix, addresses by network, and nothing else is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4 import ConfigError
from pykafka4.options.config import ClientConfig
from pykafka4.options.hosts import parse_allowed_hosts


@pytest.mark.parametrize(
    ("allowed", "host", "matches"),
    [
        ("example.com", "example.com", True),
        ("example.com", "b1.kafka.Example.COM.", True),
        (" .Example.com. ", "b1.example.com", True),
        ("example.com", "badexample.com", False),
        ("example.com", "example.com.evil.org", False),
        ("example.com", "10.0.0.1", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", False),
        ("10.0.0.0/8", "10.1.2.3.evil.org", False),
        ("10.0.0.0/8", "10.1", False),
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.8", False),
        ("fd00::/8", "fd12::1", True),
        ("fd00::/8", "fe80::1", False),
        (["a.org", "10.0.0.0/8"], "b.a.org", True),
        ("a.org,10.0.0.0/8", "10.9.9.9", True),
        ("a.org", "", False),
    ],
)
def test_a_host_is_allowed_if_it_matches_a_name_or_a_network(allowed: Any, host: str, matches: bool) -> None:
    hosts = parse_allowed_hosts(allowed)
    assert hosts is not None
    assert hosts.allows(host) is matches


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("*.example.com", "which stands for its subdomains, too"),
        ("example.com:9092", "without a port"),
        ("10.0.0.1/8", "host bits set"),
        ("10.0.0.0/33", "or a network such as"),
        ("", "must be a host name or a network"),
        (".", "must be a host name or a network"),
        ([], "is empty; None allows every host"),
        (7, "must be a string"),
        ([7], "must be a host name or a network"),
        ("a b", "cannot be in a host name"),
    ],
)
def test_what_is_neither_is_refused_by_name(value: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        parse_allowed_hosts(value)
    assert str(caught.value).startswith("allowed_hosts=")


@pytest.mark.parametrize("advertised", ["kafka1", "KAFKA1.", "0:0:0:0:0:0:0:1"])
def test_a_bootstrap_server_is_allowed_however_its_host_is_spelt(advertised: str) -> None:
    config = ClientConfig.parse({"bootstrap_servers": "Kafka1:9092,[::1]:9092", "allowed_hosts": "example.com"})
    assert config.allows(advertised)
    assert not config.allows(f"b.{advertised}")
