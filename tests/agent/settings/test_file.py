"""The TOML file: what it may hold, and the errors of a file that is wrong."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from pykafka4.agent.settings.file import LARGEST_FILE, SettingsError, dotted, parse_settings, read_settings, sections
from pykafka4.agent.settings.values import Batching, Empty, RateLimitSettings, Sync, TcpSettings, TopicSettings
from pykafka4.options.config import ProducerConfig

SMALLEST = """\
[inputs]
unix_datagram = { path = "/run/agent.sock" }
[kafka]
bootstrap_servers = "localhost:9092"
"""
OF_THE_ISSUE = """\
[inputs]
unix_datagram = { path = "/run/pykafka4/agent.sock", mode = 0o222 }
unix_stream = { path = "/run/pykafka4/agent.stream" }
tcp = { port = 9101 }
max_buffer = "128MiB"
[http]
port = 9090
[kafka]                      # the producer's options, as everywhere
bootstrap_servers = "localhost:9092"
[topics.default]
batching = "combined"        # "per_topic" | "combined" | "off"
linger_ms = 10000
[topics."clicks"]
batching = "per_topic"
compression_type = "lz4"
rate_limit = { interval_ms = 1000, max_count = 5000 }
"""


def with_table(table: str, line: str) -> str:
    """The smallest file with one more line in a table; the number of the line is LINE."""
    if f"[{table}]" in SMALLEST:
        return SMALLEST.replace(f"[{table}]\n", f"[{table}]\n{line}\n")
    return f"{SMALLEST}[{table}]\n{line}\n"


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        parse_settings(text, "agent.toml")
    return caught.value.problems


def problem(text: str) -> str:
    found = problems(text)
    assert len(found) == 1, found
    return found[0]


def test_the_file_of_the_issue() -> None:
    settings = parse_settings(OF_THE_ISSUE, "agent.toml")
    unix, stream = settings.inputs.unix_datagram, settings.inputs.unix_stream
    assert unix is not None
    assert stream is not None
    assert (unix.path, unix.mode, stream.path) == (Path("/run/pykafka4/agent.sock"), 0o222, Path("/run/pykafka4/agent.stream"))
    assert settings.inputs.tcp == TcpSettings(9101)
    assert settings.inputs.max_buffer == 128 * 1024 * 1024
    assert settings.topics.default == TopicSettings(batching=Batching.COMBINED, linger_ms=10_000)
    assert settings.topics.named == {
        "clicks": TopicSettings(batching=Batching.PER_TOPIC, compression_type="lz4", rate_limit=RateLimitSettings(1000, 5000))
    }
    assert settings.kafka == {"bootstrap_servers": "localhost:9092"}


def test_the_smallest_file_has_the_defaults() -> None:
    settings = parse_settings(SMALLEST, "agent.toml")
    assert settings.inputs.empty is Empty.NULL
    assert settings.topics.default == TopicSettings(batching=Batching.COMBINED, linger_ms=10_000)
    assert settings.http is not None
    assert settings.spool is None
    assert settings.discard_log is None


def test_what_the_default_topic_does_not_set_keeps_its_default() -> None:
    settings = parse_settings(with_table("topics.default", 'compression_type = "zstd"'), "agent.toml")
    assert settings.topics.default == TopicSettings(batching=Batching.COMBINED, linger_ms=10_000, compression_type="zstd")


def test_a_table_may_be_its_path() -> None:
    spool = parse_settings('spool = "/var/spool/agent"\n' + SMALLEST, "agent.toml").spool
    assert spool is not None
    assert (spool.path, spool.sync) == (Path("/var/spool/agent"), Sync.INTERVAL)


def test_pages_can_be_switched_off() -> None:
    assert parse_settings(with_table("http", "enabled = false"), "agent.toml").http is None


@pytest.mark.parametrize("key", ["autocreate", "offline", "[d]efault"])
def test_a_topic_may_have_the_name_of_a_setting(key: str) -> None:
    settings = parse_settings(f'{SMALLEST}[topics."{key}"]\nbatch_records = 7\n', "agent.toml")
    assert settings.topics.named == {key: TopicSettings(batch_records=7)}


@pytest.mark.parametrize(
    ("text", "size"),
    [("70_000", 70_000), ('"64k"', 65_536), ('"128MiB"', 128 << 20), ('"1 gb"', 1 << 30), ('"65536"', 65_536), ('"65536 B"', 65_536)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_settings(with_table("inputs", f"max_buffer = {text}"), "agent.toml").inputs.max_buffer == size


@pytest.mark.parametrize("text", ["0o222", '"0222"', '"222"', '"0o222"', "0b010_010_010"])
def test_modes(text: str) -> None:
    line = f'unix_stream = {{ path = "/run/s", mode = {text} }}'
    stream = parse_settings(with_table("inputs", line), "agent.toml").inputs.unix_stream
    assert stream is not None
    assert stream.mode == 0o222


def test_the_discard_log_may_have_whole_values() -> None:
    text = f'{SMALLEST}[discard_log]\npath = "/var/log/discards"\nmax_prefix_size = "all"\n'
    log = parse_settings(text, "agent.toml").discard_log
    assert log is not None
    assert log.max_prefix_size is None


@pytest.mark.parametrize(
    "text",
    ['bootstrap.servers = "localhost:9092"', '"bootstrap.servers" = "localhost:9092"', '"metadata.broker.list" = "localhost:9092"'],
)
def test_options_of_the_producer_under_the_names_of_other_clients(text: str) -> None:
    settings = parse_settings(SMALLEST.replace('bootstrap_servers = "localhost:9092"', text), "agent.toml")
    assert dict(settings.kafka)["bootstrap_servers"] in ("localhost:9092", (("localhost", 9092),))


def test_sizes_of_the_producer_may_be_text() -> None:
    settings = parse_settings(with_table("kafka", 'max_request_size = "2MiB"\nmax_partition_bytes = "64k"'), "agent.toml")
    assert (settings.kafka["max_request_size"], settings.kafka["max_partition_bytes"]) == (2 << 20, 65_536)


# -- errors: table, line of the file, the error

ERRORS = [
    ("inputs", "max_bufer = 1", "agent.toml:2: inputs.max_bufer: unknown key; did you mean 'max_buffer'?"),
    ("inputs", "max-buffer = 1", "agent.toml:2: inputs.max-buffer: unknown key; did you mean 'max_buffer'?"),
    ("inputs", 'max_buffer = "1q"', "agent.toml:2: inputs.max_buffer='1q': must be a number of bytes, 65,536 to 1,099,511,627,776"),
    ("inputs", "max_buffer = 1", "agent.toml:2: inputs.max_buffer=1: must be a number of bytes, 65,536 to"),
    ("inputs", "max_buffer = 1e9", "agent.toml:2: inputs.max_buffer=1000000000.0: must be a number of bytes"),
    ("inputs", "max_buffer = true", "agent.toml:2: inputs.max_buffer=True: must be a number of bytes"),
    ("inputs", 'empty = "nul"', 'agent.toml:2: inputs.empty=\'nul\': must be one of "null", "empty"'),
    ("inputs", "allow_large_datagrams = 1", "agent.toml:2: inputs.allow_large_datagrams=1: must be true or false"),
    ("inputs", "tcp = 9101", "agent.toml:2: inputs.tcp=9101: must be a table"),
    ("inputs", "tcp = { }", "agent.toml:2: inputs.tcp.port is missing"),
    ("inputs", "tcp.port = 65536", "agent.toml:2: inputs.tcp.port=65536: must be an integer, 0 to 65,535"),
    ("inputs", 'tcp = { port = 1, host = "0.0.0.0" }', "agent.toml:2: inputs.tcp.host='0.0.0.0': must be a loopback address"),
    ("inputs", 'tcp = { port = 1, host = "example.com" }', "agent.toml:2: inputs.tcp.host='example.com': must be a loopback address"),
    ("inputs", 'unix_stream = "agent.stream"', "agent.toml:2: inputs.unix_stream.path='agent.stream': must be an absolute path"),
    ("inputs", f'unix_stream = "/{107 * "x"}"', "must be an absolute path of at most 107 bytes"),
    (
        "inputs",
        'unix_stream = "/run/agent.sock"',
        "agent.toml:2: inputs.unix_stream.path='/run/agent.sock': unix_datagram has the same path",
    ),
    (
        "inputs",
        'unix_stream = { path = "/run/s", mode = 222 }',
        "inputs.unix_stream.mode=222: must be permissions to read and write, in octal",
    ),
    ("inputs", 'unix_stream = { path = "/run/s", mode = "8" }', "inputs.unix_stream.mode='8': must be permissions"),
    ("inputs", 'unix_stream = { path = "/run/s", owner = 3 }', "agent.toml:2: inputs.unix_stream.owner=3: must be a non-empty text"),
    ("http", 'port = "9090"', "agent.toml:6: http.port='9090': must be an integer, 0 to 65,535"),
    ("http", 'host = "10.1.2.3"', "http.host='10.1.2.3': must be a loopback address"),
    ("http", "allowed_hosts = [1]", "agent.toml:6: http.allowed_hosts=(1,): must be a list of non-empty texts"),
    ("http", 'user = "x"', "agent.toml:6: http.user: unknown key; it is a key of [service]"),
    ("service", 'group = "x"', "agent.toml:6: service.group='x': needs `user`"),
    ("service", 'log_level = "LOUD"', "agent.toml:6: service.log_level='LOUD': must be one of"),
    ("servce", "", "agent.toml:5: servce: unknown key; did you mean 'service'?"),
    ("topics", "default = 1", "agent.toml:6: topics.default=1: must be a table"),
    ("topics", "clicks = 1", "agent.toml:6: topics.clicks: unknown key; [topics] has default, autocreate, offline"),
    ("topics.page.views", "linger_ms = 1", 'topics.page.views: unknown key; a topic with dots is quoted: [topics."page.views"]'),
    (
        "http",
        'spool = "/s"',
        "http.spool: unknown key; [spool] is a table of its own; as a key it must come before the first table",
    ),
    ("kafka", 'spool = "/s"', "agent.toml:4: kafka.spool: [spool] is a table of its own; as a key it must come before the first table"),
    ('topics."my clicks"', "linger_ms = -1", 'agent.toml:6: topics."my clicks".linger_ms=-1: must be a number of milliseconds'),
    ("http", r'"a\nb" = 1', r'agent.toml:6: http."a\nb": unknown key'),
    ("http", r'"a\\b\"c" = 1', r'agent.toml:6: http."a\\b\"c": unknown key'),
    ("http", '"é" = 1', 'agent.toml:6: http."é": unknown key'),
    ("kafka", r'"a\nb" = 1', r"agent.toml:4: kafka.a\nb: unknown producer option 'a\nb'"),
    (r'topics."a\nb".views', "linger_ms = 1", r'a topic with dots is quoted: [topics."a\nb.views"]'),
    ("topics.default", 'compression_type = "lzma"', "topics.default.compression_type='lzma': must be one of none, gzip"),
    ("topics.a", "rate_limit = { interval_ms = 1 }", "agent.toml:6: topics.a.rate_limit.max_count is missing: Most messages"),
    ("spool", 'sync = "interval"', "agent.toml:5: spool.path is missing: The folder"),
    ("kafka", "acks = 7", "agent.toml:4: kafka.acks=7: must be 'all', 1 or 0"),
    ("kafka", "linger = 7", "agent.toml:4: kafka.linger: unknown producer option 'linger'"),
    ("kafka", "linger_ms = 7", "agent.toml:4: kafka.linger_ms: set it in [topics.default]: linger_ms"),
    ("kafka", "group_id = 'x'", "agent.toml:4: kafka.group_id: unknown producer option 'group_id'; it is a consumer option"),
    ("kafka", '"no.such.option" = 1', "agent.toml:4: kafka.no.such.option"),
    ("kafka", "retries = 0\nenable_idempotence = true", "agent.toml:4: kafka.retries=0 with enable_idempotence=True"),
    ("kafka", "delivery_timeout_ms = 0", "agent.toml:4: kafka.delivery_timeout_ms=0: must be"),
]


@pytest.mark.parametrize(("table", "line", "expected"), ERRORS, ids=[f"{table}: {line}" for table, line, _ in ERRORS])
def test_an_error_names_file_line_key_value_and_what_is_allowed(table: str, line: str, expected: str) -> None:
    assert expected in problem(with_table(table, line))


ODD = [
    "1979-05-27T07:32:00Z",
    "07:32:00",
    "nan",
    "inf",
    "-inf",
    "-1",
    "9223372036854775807",
    40 * "9",
    "''",
    "[]",
    "[[1], ['a']]",
    "{ }",
    "{ a = 1 }",
]
ODD += ["true", "'a'", '"a\\u0000b"', "1e400", "'*'", "[{ a = 1 }]", f"'{300 * 'x'}'", '"\\U0001F600"', "0o777", "'0777'", "'9' "]


def outcome(text: str) -> tuple[str, ...]:
    """The errors of the text, if any."""
    try:
        parse_settings(text, "agent.toml")
    except SettingsError as error:
        return error.problems
    return ()


def test_no_value_of_any_setting_is_another_error() -> None:
    """Each setting with each odd value: a value, or errors with the name of the file."""
    keys = [(*where, name) for where, kind, _ in sections() for name in attrs.fields_dict(kind)]
    more = {key: "" if key[0] in ("inputs", "kafka") else SMALLEST for key in keys}
    errors = [outcome(f"{dotted(key)} = {value}\n{more[key]}") for key in keys for value in ODD]
    assert all(each.startswith("agent.toml") for found in errors for each in found)
    assert sum(map(bool, errors)) > 500


def test_no_value_of_any_option_of_the_producer_is_another_error() -> None:
    names = [name for name in attrs.fields_dict(ProducerConfig) if name != "bootstrap_servers"]  # which is there already
    errors = [outcome(with_table("kafka", f"{name} = {value}")) for name in names for value in ODD]
    assert all("kafka" in each for found in errors for each in found)
    assert sum(map(bool, errors)) > 500


def test_all_errors_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = "[kafka]\nacks = 7\nretries = -1\n[http]\nport = -1\nprt = 1\n[inputs]\nmax_buffer = 0\ntcp = 1\n"
    assert [each.split("=")[0].split(" ")[:2] for each in problems(text)] == [
        ["agent.toml:2:", "kafka.acks"],
        ["agent.toml:3:", "kafka.retries"],
        ["agent.toml:5:", "http.port"],
        ["agent.toml:6:", "http.prt:"],
        ["agent.toml:8:", "inputs.max_buffer"],
        ["agent.toml:9:", "inputs.tcp"],
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["agent.toml: [kafka] is missing", "agent.toml: inputs is missing: Sockets that take messages."]),
        ("[inputs]\n[kafka]\n", ["agent.toml:1: inputs: no input: at least one", "agent.toml:2: kafka.bootstrap_servers is missing"]),
        ("inputs = 1\nkafka = 1\n", ["agent.toml:1: inputs=1: must be a table", "agent.toml:2: [kafka] must be a table"]),
    ],
)
def test_what_has_to_be_there(text: str, expected: list[str]) -> None:
    found = problems(text)
    assert len(found) == len(expected), found
    assert all(a.startswith(b) for a, b in zip(found, expected)), found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[inputs]\nx = \n", "agent.toml:2: not TOML: Invalid value, column 5"),
        ("[inputs]\n[inputs]\n", "agent.toml:2: not TOML: Cannot declare ('inputs',) twice, column 8"),
        ("[inputs]\nx = [\n\n", "agent.toml:3: not TOML"),
        ("a b\n", "agent.toml:1: not TOML"),
    ],
)
def test_a_file_that_is_no_toml(text: str, expected: str) -> None:
    assert problem(text).startswith(expected)


SECRETS = [
    "sasl_password = 'TOP'",
    "sasl_pasword = 'TOP'",
    "sasl.password = 'TOP'",
    "ssl_key_password = ''\nsasl_password = 'TOP'\nacks = 7",
]
SECRETS += ["sasl_password = ['TOP']", "ssl_keyfile = '''-----BEGIN\nTOP'''", "proxy_url = 'http://me:TOP@'", "sasl.jaas.config = 'TOP'"]


@pytest.mark.parametrize("line", SECRETS)
def test_a_secret_is_in_no_error_and_not_in_the_text_of_the_settings(line: str) -> None:
    text = with_table("kafka", line)
    try:
        shown = repr(parse_settings(text, "agent.toml"))
    except SettingsError as error:
        shown = str(error)
    assert "TOP" not in shown


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, content, expected in [
        (tmp_path / "none.toml", None, "none.toml: cannot be read: No such file or directory"),
        (tmp_path, None, "cannot be read: Is a directory"),
        (tmp_path / "latin.toml", b"a = 1\nb = '\xe4'\n", "latin.toml:2: byte 0xe4 is not UTF-8"),
        (tmp_path / "large.toml", b"#" * (LARGEST_FILE + 1), "large.toml: is larger than 1,048,576 bytes"),
    ]:
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(SettingsError) as caught:
            read_settings(path)
        assert expected in str(caught.value)


def test_errors_in_a_long_file_are_found() -> None:
    topics = "".join(f'[topics."t{n}"]\nlinger_ms = 5\nbatch_records = {0 if n % 100 == 0 else 1}\n' for n in range(300))
    assert [each.split(":")[1] for each in problems(SMALLEST + topics)] == ["7", "307", "607"]
