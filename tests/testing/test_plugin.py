"""The fixture `kafka_server`: found without any import, chosen by its marker, and strict about faults that never happened."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

HEAD = "import pytest\nfrom pykafka4 import Producer\n\n"


def run(pytester: pytest.Pytester, text: str) -> pytest.RunResult:
    pytester.makepyfile(HEAD + text)
    return pytester.runpytest_subprocess("--strict-markers", "-W", "error")


def test_the_fixture_is_there_without_a_line_of_configuration(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_it(kafka_server):
    with Producer(bootstrap_servers=kafka_server.bootstrap_servers) as producer:
        producer.send("t", b"x")
    assert [record.value for record in kafka_server.records("t")] == [b"x"]
    assert len(kafka_server.bootstrap_servers.split(",")) == 3
""",
    )
    result.assert_outcomes(passed=1)


def test_the_closest_marker_chooses_what_the_server_is(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
pytestmark = pytest.mark.kafka_server(brokers=2, release="2.8")

def test_module(kafka_server):
    assert len(kafka_server.bootstrap_servers.split(",")) == 2
    assert kafka_server.cluster.release == "2.8"

@pytest.mark.kafka_server(brokers=1)
def test_own(kafka_server):
    assert len(kafka_server.bootstrap_servers.split(",")) == 1
    assert kafka_server.cluster.release == "2.8"
""",
    )
    result.assert_outcomes(passed=2)


def test_a_fault_that_never_happened_is_an_error_unless_it_is_opted_out(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_strict(kafka_server):
    kafka_server.fail("Fetch", "OFFSET_OUT_OF_RANGE")

@pytest.mark.kafka_server(unmet="ignore")
def test_lenient(kafka_server):
    kafka_server.fail("Fetch", "OFFSET_OUT_OF_RANGE")
""",
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_strict*", "*fail('Fetch', 'OFFSET_OUT_OF_RANGE') (ordered: 1, happened: 0)*"])


def test_a_test_that_failed_or_was_skipped_is_not_an_error_as_well(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_failed(kafka_server):
    kafka_server.fail("Fetch", "OFFSET_OUT_OF_RANGE")
    assert False

def test_skipped(kafka_server):
    kafka_server.fail("Fetch", "OFFSET_OUT_OF_RANGE")
    pytest.skip("a client is not installed")
""",
    )
    result.assert_outcomes(failed=1, skipped=1)


def test_an_exception_in_a_handler_fails_the_test_with_its_traceback(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def explode(call):
    raise ZeroDivisionError("in the handler")

def test_it(kafka_server):
    kafka_server.do(lambda cluster: cluster.control("Metadata", explode))
    producer = Producer(bootstrap_servers=kafka_server.bootstrap_servers)
    assert producer.send("t", b"x").exception(0.5) is None
    producer.close(0)
""",
    )
    assert result.parseoutcomes().get("errors") == 1
    result.stdout.fnmatch_lines(["*ZeroDivisionError: in the handler*", "*RuntimeError: the model server crashed*"])


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        ('unmet="maybe"', "*unmet='maybe'*"),
        ("1", "**takes keyword arguments only*"),
        ('release="9.9"', "*unknown release '9.9'*"),
        ("broker=1", "*'broker' is not an option of ModelServer*"),
    ],
)
def test_a_wrong_marker_is_an_error_that_names_it(pytester: pytest.Pytester, marker: str, told: str) -> None:
    result = run(pytester, f"@pytest.mark.kafka_server({marker})\ndef test_it(kafka_server): ...\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([told])


def test_naming_the_plugin_as_well_does_no_harm(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["pykafka4.testing.pytest_plugin"]')
    run(pytester, "def test_it(kafka_server): ...\n").assert_outcomes(passed=1)
