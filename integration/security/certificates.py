"""Certificates. Rule: every cluster has an authority of its own that nobody else trusts; what can be wrong with a certificate is a method.

Private keys are PKCS#8, which is what Java reads from PEM files.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

import attrs
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

__all__ = ["Authority", "Certificate", "self_signed"]

DAY = datetime.timedelta(days=1)
HERE = ("localhost", "127.0.0.1")
CLIENT = "client.invalid"  # without any alternative name Java refuses a certificate


@attrs.frozen
class Certificate:
    """A certificate with its key; `chain` ends below the authority that clients trust."""

    chain: bytes
    key: bytes = attrs.field(repr=False)

    @property
    def keystore(self) -> bytes:
        """One PEM file with all of it, as a broker takes it."""
        return self.key + self.chain

    @property
    def der(self) -> bytes:
        """The certificate itself, as `ssl` shows that of a peer."""
        return ssl.PEM_cert_to_DER_cert(self.chain.decode().partition("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n")

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Its files `name.pem` and `name.key`, as options of clients name them."""
        folder.mkdir(parents=True, exist_ok=True)
        files = folder / f"{name}.pem", folder / f"{name}.key"
        for path, content in zip(files, (self.chain, self.key), strict=True):
            path.write_bytes(content)
        return files


class Authority:
    """A certificate authority. `names` are host names and addresses of a server."""

    def __init__(self) -> None:
        self.issuer = trustme.CA()
        self.pem = self.issuer.cert_pem.bytes()

    def write(self, folder: Path) -> Path:
        """Its certificate in a file, the `ssl_cafile` of clients."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "ca.pem"
        path.write_bytes(self.pem)
        return path

    def server(self, *names: str) -> Certificate:
        """One that is right for a server of these names."""
        return self.issued(names or HERE)

    def wrong_host(self) -> Certificate:
        return self.issued(("elsewhere.invalid",))

    def expired(self, *names: str) -> Certificate:
        """Since yesterday."""
        now = datetime.datetime.now(datetime.UTC)
        return self.issued(names or HERE, since=now - 30 * DAY, until=now - DAY)

    def not_yet_valid(self, *names: str) -> Certificate:
        """Not before tomorrow."""
        now = datetime.datetime.now(datetime.UTC)
        return self.issued(names or HERE, since=now + DAY, until=now + 30 * DAY)

    def chained(self, *names: str) -> Certificate:
        """Issued by an intermediate authority, whose certificate the server shows, too."""
        return self.issued(names or HERE, issuer=self.issuer.create_child_ca())

    def client(self, user: str) -> Certificate:
        """A client's, whose common name is the user."""
        return self.issued((CLIENT,), user)

    def expired_client(self, user: str) -> Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return self.issued((CLIENT,), user, since=now - 30 * DAY, until=now - DAY)

    def issued(
        self,
        names: tuple[str, ...],
        common_name: str | None = None,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
        issuer: trustme.CA | None = None,
    ) -> Certificate:
        made = (issuer or self.issuer).issue_cert(*names, common_name=common_name, not_before=since, not_after=until)
        chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
        return Certificate(chain, pkcs8(serialization.load_pem_private_key(made.private_key_pem.bytes(), None)))


def self_signed(*names: str) -> Certificate:
    """Signed by itself; right in everything else."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "self-signed")])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number(), now - DAY, now + 30 * DAY)
    alternatives = x509.SubjectAlternativeName([general_name(name) for name in names or HERE])
    made = builder.add_extension(alternatives, critical=False).sign(key, hashes.SHA256())
    return Certificate(made.public_bytes(serialization.Encoding.PEM), pkcs8(key))


def general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def pkcs8(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
