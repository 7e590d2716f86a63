"""Bugs of the model cluster."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/testing/requests/session.py",
        old="        if self._proceeding:",
        new="        if False:",
        breaks="the model server has no stack for many requests that arrive together",
        tests=("tests/testing/test_model.py::test_any_number_of_requests_that_arrive_together_are_answered_in_order",),
    ),
    Mutant(
        file="pykafka4/testing/cluster/settings.py",
        old="return {name: checks[name](name, value) for name, value in settings.items()}",
        new="return dict(settings)",
        breaks="a wrong setting of a topic ends the model server at the first Produce",
        tests=("tests/testing/test_checks.py::test_a_wrong_setting_is_refused_and_no_topic_is_left",),
    ),
    Mutant(
        file="pykafka4/testing/faults/checks.py",
        old="                given[name] = check(name, value, cluster)\n",
        new="                pass\n",
        breaks="a wrong order to the model is found out later, far from its cause",
        tests=("tests/testing/test_checks.py::test_a_wrong_order_is_refused_when_it_is_given",),
    ),
    Mutant(
        file="pykafka4/testing/requests/session.py",
        old="decode_request(frame, whole=False)",
        new="decode_request(frame)",
        breaks="the model server closes the connection where a broker ignores the bytes behind a request",
        tests=("tests/testing/test_model.py::test_bytes_behind_a_request_are_ignored_as_brokers_do",),
    ),
    Mutant(
        file="pykafka4/testing/requests/session.py",
        old="            self._refuse(frame, str(error))\n",
        new="            self.close()\n",
        breaks="the model server closes the connection of a request that it cannot decode, and nothing says why",
        tests=("tests/testing/test_model.py::test_a_request_that_cannot_be_decoded_is_logged",),
    ),
    Mutant(
        file="pykafka4/testing/requests/topics.py",
        old="if any(not a.broker_ids or not set(a.broker_ids) <= call.cluster.brokers.keys() for a in wanted.assignments):",
        new="if any(not a.broker_ids for a in wanted.assignments):",
        breaks="the model creates a topic on a broker that does not exist",
        tests=("tests/testing/test_model.py::test_a_topic_on_a_broker_that_does_not_exist_is_refused",),
    ),
    Mutant(
        file="pykafka4/testing/server/model_server.py",
        old="        if os.getpid() != self._process:\n            raise RuntimeError(\n",
        new="        if False:\n            raise RuntimeError(\n",
        breaks="orders given in a forked child are lost without a word",
        tests=("tests/testing/test_server_misuse.py::test_a_forked_child_gets_an_error_because_the_server_is_its_parents",),
    ),
    Mutant(
        file="pykafka4/testing/server/sockets.py",
        old="            self._ports[node] = bound(broker.port if broker.host == HOST else 0)\n        listener = bound(self._ports[node].getsockname()[1])\n",
        new="            self._ports[node] = bound(0)\n        listener = bound(broker.port if broker.host == HOST else 0)\n",
        breaks="a process that connects somewhere may get the port of a broker that is down, which then cannot start",
        tests=("tests/testing/test_server.py::test_nobody_else_gets_the_port_of_a_broker_that_is_down",),
    ),
    Mutant(
        file="pykafka4/testing/server/sockets.py",
        old="        sock.shutdown(socket.SHUT_RDWR)\n",
        new="        pass\n",
        breaks="connections and ports of the model server stay open while a forked child lives",
        tests=("tests/testing/test_server_misuse.py::test_connections_and_ports_are_closed_though_a_forked_child_lives",),
    ),
    Mutant(
        file="pykafka4/testing/requests/session.py",
        old="    Fault.SWALLOW: lambda session, data, seconds: None,  # the connection stays open and silent until the client closes it\n",
        new="",
        breaks="a fault of the model cluster can be ordered and is not carried out",
        tests=("tests/testing/test_orders.py::test_every_fault_is_carried_out",),
    ),
    Mutant(
        file="pykafka4/testing/faults/controls.py",
        old="        self.denials.clear()\n",
        new="        pass\n",
        breaks="healing the model leaves rights denied",
        tests=("tests/testing/test_denials.py::test_heal_allows_everything",),
    ),
    Mutant(
        file="pykafka4/testing/faults/controls.py",
        old="    if unknown := sorted(named - OPERATIONS[resource]):",
        new="    if unknown := None:",
        breaks="a denial that could never happen is accepted",
        tests=("tests/testing/test_denials.py::test_a_denial_that_could_never_happen_is_rejected",),
    ),
    Mutant(
        file="pykafka4/testing/requests/fetch.py",
        old='        if call.denied("topic", topic, "READ"):\n            return True\n',
        new="",
        breaks="a denied Fetch waits for data",
        tests=("tests/testing/test_denials.py::test_a_denied_fetch_is_answered_at_once",),
    ),
    Mutant(
        file="pykafka4/testing/requests/metadata.py",
        old="            return denied\n",
        new="            pass\n",
        breaks="a topic whose creation is denied is created",
        tests=("tests/testing/test_denials.py::test_a_topic_that_may_not_be_created_is_not",),
    ),
)
