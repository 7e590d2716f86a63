"""The option `proxy_url`: what is understood, what is refused with the way out, and that the secret in it is shown nowhere."""

from __future__ import annotations

import pickle
import traceback

import attrs
import pytest

from pykafka4 import Client, ConfigError
from pykafka4.options.config import ClientConfig, ProducerConfig
from pykafka4.options.proxy import Proxy, ProxyKind, parse_proxy

B = {"bootstrap_servers": "b:9092"}
SOCKS, HTTP = ProxyKind.SOCKS5, ProxyKind.HTTP


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("socks5://gw:1080", Proxy(SOCKS, "gw", 1080)),
        ("socks5h://gw:1080", Proxy(SOCKS, "gw", 1080)),
        ("  SOCKS5://gw:1080/\n", Proxy(SOCKS, "gw", 1080)),
        ("http://gw.example:3128", Proxy(HTTP, "gw.example", 3128)),
        ("http://[::1]:8080/", Proxy(HTTP, "::1", 8080)),
        ("socks5://10.0.0.1:65535", Proxy(SOCKS, "10.0.0.1", 65535)),
        ("socks5://anna:word@gw:1", Proxy(SOCKS, "gw", 1, b"anna", b"word")),
        ("socks5://anna:@gw:1", Proxy(SOCKS, "gw", 1, b"anna")),
        ("http://anna: w @gw:1", Proxy(HTTP, "gw", 1, b"anna", b" w ")),
        ("http://anna@gw:1", Proxy(HTTP, "gw", 1, b"anna")),
        ("http://anna:a:b@c@gw:1", Proxy(HTTP, "gw", 1, b"anna", b"a:b@c")),
        ("socks5://a%3Ab:%40%2f%23%25%00@gw:1", Proxy(SOCKS, "gw", 1, b"a:b", b"@/#%\0")),
        ("http://j%C3%B6rg:jörg@gw:1", Proxy(HTTP, "gw", 1, "jörg".encode(), "jörg".encode())),
        (f"socks5://{'u' * 255}:{'%20' * 255}@gw:1", Proxy(SOCKS, "gw", 1, b"u" * 255, b" " * 255)),
        (f"http://u:{'p' * 1000}@gw:1", Proxy(HTTP, "gw", 1, b"u", b"p" * 1000)),
    ],
)
def test_a_url_is_understood(url: str, proxy: Proxy) -> None:
    assert parse_proxy(url) == proxy
    assert ClientConfig.parse({**B, "proxy_url": url}).proxy_url == proxy


def test_no_proxy_is_the_default_and_a_parsed_one_is_taken_again() -> None:
    assert ClientConfig.parse(B).proxy_url is None
    assert ClientConfig.parse({**B, "proxy_url": None}).proxy_url is None
    config = ClientConfig.parse({**B, "proxy_url": "socks5://a:b@gw:1"})
    assert ProducerConfig.parse(attrs.asdict(config, recurse=False)).proxy_url == config.proxy_url
    with pytest.raises(TypeError, match="this Proxy cannot be pickled, as that would show its secret"):
        pickle.dumps(config)
    without = ClientConfig.parse({**B, "proxy_url": "socks5://gw:1"})
    assert pickle.loads(pickle.dumps(without)) == without


WORD = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "has no scheme: must be socks5://host:port or http://host:port"),
        ("gw:1080", "has no scheme"),
        (f"anna:{WORD}@gw:1080", "has no scheme"),
        (f"anna:{WORD}@gw://", "has no scheme"),
        (f"sock5://anna:{WORD}@gw:1080", "the scheme 'sock5' is none of socks5, socks5h, http; did you mean socks5://?"),
        (f"htp://anna:{WORD}@gw:1080", "did you mean http://"),
        (f"ftp1://anna:{WORD}@gw:1080", "use socks5://host:port or http://host:port"),
        (f"https://anna:{WORD}@gw:1080", "TLS between the client and a proxy is not supported; use http://"),
        (f"HTTPS://anna:{WORD}@gw:1080", "TLS between the client and a proxy"),
        (f"socks4://anna:{WORD}@gw:1080", "only version 5 of SOCKS"),
        (f"socks4a://anna:{WORD}@gw:1080", "only version 5 of SOCKS"),
        (f"socks://anna:{WORD}@gw:1080", "write socks5://"),
        (f"socks5://anna:{WORD}/x@gw:1080", "write %2F for /"),
        (f"socks5://anna:{WORD}?x@gw:1080", "%3F for ?"),
        (f"socks5://anna:{WORD}#x@gw:1080", "%23 for #"),
        (f"socks5://anna:{WORD}%@gw:1080", "write %25 for %"),
        (f"socks5://anna:{WORD}%4@gw:1080", "write %25 for %"),
        (f"socks5://an%zzna:{WORD}@gw:1080", "write %25 for %"),
        (f"socks5://:{WORD}@gw:1080", "the user name before @ is empty"),
        ("socks5://@gw:1080", "the user name before @ is empty"),
        (f"http://an%3Ana:{WORD}@gw:1080", "the user name has a colon"),
        (f"socks5://{'u' * 256}:{WORD}@gw:1080", "more than 255 bytes"),
        (f"socks5://u:{WORD * 50}@gw:1080", "more than 255 bytes"),
        (f"socks5://anna:{WORD}@gw", "host or port is missing"),
        (f"socks5://anna:{WORD}@", "host or port is missing"),
        (f"socks5://anna:{WORD}@:1080", "host or port is missing"),
        (f"socks5://anna:{WORD}@[::1]", "host or port is missing"),
        ("socks5://", "host or port is missing"),
        (f"socks5://anna:{WORD}", "the port must be a number from 1 to 65535; is the @ between password and host missing?"),
        (f"socks5://anna:{WORD}:1080", "a host with colons must be an IPv6 address in brackets"),
        ("socks5://gw:0", "the port must be"),
        ("socks5://gw:65536", "the port must be"),
        ("socks5://gw:-1", "the port must be"),
        ("socks5://gw:\uff11\uff12", "the port must be"),
        ("socks5://gw:123456", "the port must be"),
        ("socks5://gw:", "the port must be"),
        ("socks5://::1:1080", "an IPv6 address in brackets"),
        ("socks5://[::x]:1080", "neither a host name nor an IP address"),
        ("socks5://g w:1080", "neither a host name nor an IP address"),
        ("socks5://a..b:1080", "neither a host name nor an IP address"),
        (f"socks5://anna:{WORD}@gw:1080/path", "must end after the port"),
        (f"socks5://anna:{WORD}@gw:1080?a=b", "must end after the port"),
        (f"socks5://anna:{WORD}\ud800/@gw:1080", "write %2F for /"),
        (f"http://\udc80:{WORD}\ud800@g w:1080", "neither a host name nor an IP address"),
    ],
)
def test_a_url_that_is_none_is_refused_with_the_way_out_and_without_the_secret(url: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ClientConfig.parse({**B, "proxy_url": url})
    assert str(caught.value).startswith("proxy_url: ")
    assert says in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__context__) + repr(caught.value)
    assert WORD not in shown
    assert "anna" not in shown


@pytest.mark.parametrize(("value", "kind"), [(b"socks5://gw:1", "bytes"), (1080, "int"), (("gw", 1080), "tuple"), (True, "bool")])
def test_what_is_no_text_is_named_by_its_type(value: object, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"^proxy_url is of type {kind}: must be a string such as socks5://host:port"):
        ClientConfig.parse({**B, "proxy_url": value})


def test_the_secret_is_in_no_repr() -> None:
    url = f"socks5://anna:{WORD}@gw:1080"
    config = ClientConfig.parse({**B, "proxy_url": url})
    with Client(bootstrap_servers="127.0.0.1:1", proxy_url=url) as client:
        shown = [repr(config), str(config), repr(config.proxy_url), repr(client), repr(client.status())]
    for text in shown:
        assert WORD not in text
        assert "anna" not in text
    assert config.proxy_url is not None
    assert config.proxy_url.address == "gw:1080"
    assert Proxy(HTTP, "::1", 8080).address == "[::1]:8080"
