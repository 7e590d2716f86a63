"""Machines that demand TLS and a user: each is reached at its own address, and its certificate is for that one only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.host import prerequisites
from integration.vagrant.cluster import KEYSTORE, VagrantCluster
from integration.vagrant.containers import Containers
from tests.harness.secured import SECURITY, certificate_fits, certificate_is_for_another, served_and_refused

pytestmark = pytest.mark.vagrant
PROVISION = 300.0


@pytest.fixture(scope="module")
def secured() -> Iterator[VagrantCluster]:
    if missing := prerequisites.check() + Containers().missing():
        pytest.skip("; ".join(missing))
    with VagrantCluster(brokers=3, provider="docker", security=SECURITY) as running:
        yield running


def provision(cluster: VagrantCluster, node: int) -> str:
    tool = cluster.opened().vagrant
    assert tool is not None
    return tool.run("provision", f"kafka{node}", timeout=PROVISION)


def test_a_certificate_is_for_the_machines_address(secured: VagrantCluster) -> None:
    for node in secured.nodes:
        assert secured.address(node)[0] == secured.opened().address(node)
        certificate_fits(secured, secured.address(node))


def test_only_the_broker_may_read_its_key(secured: VagrantCluster) -> None:
    code, _ = secured.opened().run(1, "bash", "-c", f'[ "$(stat -c "%U %a" {KEYSTORE})" = "kafka 600" ]')
    assert code == 0


def test_users_write_and_read_what_they_may(secured: VagrantCluster, topic: str) -> None:
    served_and_refused(secured, topic)


def test_a_certificate_that_replaced_another_is_kept_by_restarts_and_by_provisioning(secured: VagrantCluster) -> None:
    secured.access.replace_certificate(2, secured.access.certificate(1))
    certificate_is_for_another(secured, secured.address(2))
    assert "nothing to change" in provision(secured, 2)
    secured.restart(2)
    certificate_is_for_another(secured, secured.address(2))
    secured.restart_with(2, secured.access.certificate(2))
    certificate_fits(secured, secured.address(2))
    assert "nothing to change" in provision(secured, 2)
    secured.wait_full_isr()


def test_up_again_forgets_what_became_of_users_rights_and_certificates(secured: VagrantCluster, topic: str) -> None:
    access = secured.access
    access.set_password("alice", "SCRAM-SHA-256", "another")
    access.set_password("carol", "SCRAM-SHA-256", "new")
    access.replace_certificate(1, access.authority.wrong_host())
    secured.up()
    assert not access.admits(1, "carol", "SCRAM-SHA-256", "new")
    certificate_fits(secured, secured.address(1))
    served_and_refused(secured, topic)
