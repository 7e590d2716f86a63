"""Issues valid and faulty certificates: each kind of fault is a method or function. Invariant: every cluster has an authority of its own,
and only its clients and brokers trust it.

Private keys are in PKCS#8, because Java reads this format from PEM files.
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
CLIENT = "client.invalid"  # Java refuses a certificate without an alternative name


@attrs.frozen
class Certificate:
    """A certificate with its key; `chain` ends below the authority that clients trust."""

    chain: bytes
    key: bytes = attrs.field(repr=False)

    @property
    def keystore(self) -> bytes:
        """The PEM file for a broker, with key and chain."""
        return self.key + self.chain

    @property
    def der(self) -> bytes:
        """The certificate without its chain, in the form in which `ssl` returns a peer's certificate."""
        return ssl.PEM_cert_to_DER_cert(self.chain.decode().partition("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n")

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        folder.mkdir(parents=True, exist_ok=True)
        files = folder / f"{name}.pem", folder / f"{name}.key"
        for path, content in zip(files, (self.chain, self.key), strict=True):
            path.write_bytes(content)
        return files


class Authority:
    """`names` are host names and addresses of a server."""

    def __init__(self) -> None:
        self.issuer = trustme.CA()
        self.pem = self.issuer.cert_pem.bytes()

    def write(self, folder: Path) -> Path:
        """Write the file that is the `ssl_cafile` of clients."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "ca.pem"
        path.write_bytes(self.pem)
        return path

    def server(self, *names: str) -> Certificate:
        return self.issued(names or HERE)

    def wrong_host(self) -> Certificate:
        return self.issued(("elsewhere.invalid",))

    def expired(self, *names: str) -> Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return self.issued(names or HERE, since=now - 30 * DAY, until=now - DAY)

    def not_yet_valid(self, *names: str) -> Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return self.issued(names or HERE, since=now + DAY, until=now + 30 * DAY)

    def chained(self, *names: str) -> Certificate:
        """The intermediate authority's certificate is in the chain that the server shows."""
        return self.issued(names or HERE, issuer=self.issuer.create_child_ca())

    def client(self, user: str) -> Certificate:
        """The user is the common name."""
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
    """The certificate is valid otherwise."""
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
