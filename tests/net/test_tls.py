"""Contexts: every form of certificate and key, what is wrong with one is named without showing it, and changed files are used."""

from __future__ import annotations

import datetime
import logging
import os
import ssl
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trustme")

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as formats
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate

from integration.security.certificates import Certificate
from pykafka4.errors import ConfigError, ConnectionLost
from pykafka4.net import tls
from pykafka4.net.tls import Contexts
from tests.net.tls_peers import AUTHORITY, config

PASSWORD = "marked-password"
CLIENT, OTHER = AUTHORITY.client("alice"), AUTHORITY.client("bob")
SECRETS = [PASSWORD, "PRIVATE KEY-----\\n", *(line for line in (CLIENT.key + CLIENT.chain).decode().splitlines() if len(line) > 40)]
posix = pytest.mark.skipif(os.name != "posix", reason="modes of files")
in_memory = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no files in memory here")


def encrypted(certificate: Certificate, *, old: bool = False) -> bytes:
    key = formats.load_pem_private_key(certificate.key, None)
    form = formats.PrivateFormat.TraditionalOpenSSL if old else formats.PrivateFormat.PKCS8
    return key.private_bytes(formats.Encoding.PEM, form, formats.BestAvailableEncryption(PASSWORD.encode()))


class Files:
    """A folder to write certificates to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        return str(path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    """Neither descriptors nor files, and no key in a message of any test."""
    folder, descriptors = Path(tempfile.gettempdir()), Path("/proc/self/fd")
    before = set(folder.glob("tmp*")), len(list(descriptors.iterdir())) if descriptors.exists() else 0
    yield
    assert len(list(descriptors.iterdir())) <= before[1] if descriptors.exists() else True
    mine = {path for path in set(folder.glob("tmp*")) - before[0] if path.exists() and path.is_dir() and (path / "pem").exists()}
    assert not mine


def refused(**options: Any) -> str:
    """The message; it shows no secret, and neither do its causes."""
    with pytest.raises(ConfigError) as caught:
        Contexts(config(**options))
    error: BaseException | None = caught.value
    while error is not None:
        assert not [secret for secret in SECRETS if secret in f"{error} {error!r}"]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return str(caught.value)


def has_certificate(contexts: Contexts) -> bool:
    """Whether a client with this context shows a certificate: a server that demands one accepts it."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        server.load_cert_chain(*AUTHORITY.server("localhost").write(Path(folder), "server"))
    server.load_verify_locations(cadata=AUTHORITY.pem.decode())
    server.verify_mode = ssl.CERT_REQUIRED
    return shown_to(server, contexts) is not None


def shown_to(server: ssl.SSLContext, contexts: Contexts) -> Any:
    """The client's certificate as a server sees it, after a handshake in memory."""
    bio = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    ends = [
        contexts.current().wrap_bio(bio[0], bio[1], server_hostname="localhost"),
        server.wrap_bio(bio[1], bio[0], server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return ends[1].getpeercert()


# -- what is accepted


def test_authorities_come_from_a_file_or_a_text(files: Files) -> None:
    path = files.write("ca.pem", AUTHORITY.pem)
    for options in ({"ssl_cafile": path}, {"ssl_ca_pem": AUTHORITY.pem.decode()}):
        context = Contexts(config(**options)).current()
        assert context.get_ca_certs(binary_form=True) == [ssl.PEM_cert_to_DER_cert(AUTHORITY.pem.decode())]
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname


def test_without_authorities_those_of_the_system_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda self, purpose: asked.append(purpose))
    Contexts(config(ssl_ca_pem=None))
    assert asked == [ssl.Purpose.SERVER_AUTH]


def test_comments_of_any_language_may_be_beside_a_certificate() -> None:
    """Files of authorities name them; OpenSSL takes ASCII only."""
    Contexts(config(ssl_ca_pem="\ufeff# Autorité \udc80\n" + AUTHORITY.pem.decode()))
    both = "# für Jürgen \udc80\n" + CLIENT.keystore.decode()
    assert has_certificate(Contexts(config(ssl_cert_pem=both)))


def forms(files: Files, *, old: bool = False) -> dict[str, dict[str, Any]]:
    """All the ways to give a client's certificate and key."""
    chain, key, secret = CLIENT.chain, CLIENT.key, encrypted(CLIENT, old=old)
    paths = {name: files.write(name, content) for name, content in (("c", chain), ("k", key), ("both", key + chain), ("e", secret))}
    return {
        "two files": {"ssl_certfile": paths["c"], "ssl_keyfile": paths["k"]},
        "one file": {"ssl_certfile": paths["both"]},
        "two texts": {"ssl_cert_pem": chain.decode(), "ssl_key_pem": key.decode()},
        "one text": {"ssl_cert_pem": (chain + key).decode()},
        "file and text": {"ssl_certfile": paths["c"], "ssl_key_pem": key.decode()},
        "text and file": {"ssl_cert_pem": chain.decode(), "ssl_keyfile": paths["k"]},
        "password": {"ssl_certfile": paths["c"], "ssl_keyfile": paths["e"], "ssl_password": PASSWORD},
        "callable": {"ssl_cert_pem": chain.decode(), "ssl_key_pem": secret.decode(), "ssl_password": lambda: PASSWORD},
    }


@pytest.mark.parametrize("old", [False, True], ids=["PKCS8", "traditional"])
def test_a_client_certificate_is_taken_in_every_form(files: Files, old: bool) -> None:
    for options in forms(files, old=old).values():
        assert has_certificate(Contexts(config(**options))), options.keys()


@pytest.mark.parametrize("way", ["in_memory", "no_such_call", "forbidden", "no_proc"])
def test_texts_are_handed_to_openssl_without_a_trace(files: Files, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """`nothing_stays_behind` looks for traces."""
    if way == "no_such_call":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif way == "forbidden":

        def refuse(name: str) -> int:
            raise PermissionError(1, "seccomp")

        monkeypatch.setattr(os, "memfd_create", refuse, raising=False)
    elif way == "no_proc":
        exists = Path.exists
        monkeypatch.setattr(Path, "exists", lambda self: not str(self).startswith("/proc") and exists(self))
        load = ssl.SSLContext.load_cert_chain

        def elsewhere(self: ssl.SSLContext, certificate: str, *rest: Any) -> None:
            assert not str(certificate).startswith("/proc")
            load(self, certificate, *rest)

        monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", elsewhere)
    for form in ("two texts", "one text", "callable"):
        assert has_certificate(Contexts(config(**forms(files)[form])))
    assert "damaged" in refused(ssl_cert_pem=CLIENT.chain.decode(), ssl_key_pem=CLIENT.key.decode()[:150] + "-----END PRIVATE KEY-----")


@in_memory
def test_a_text_never_reaches_a_disk_where_it_can_stay_in_memory(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "_on_disk", lambda *_: pytest.fail("written to a disk"))
    Contexts(config(**forms(files)["two texts"]))


def test_without_any_place_for_a_text_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tls, "_in_memory", lambda *_: None)
    monkeypatch.setattr(tls, "_on_disk", full)
    full = "no temporary file for a certificate or a key can be written: No space left on device"
    assert refused(ssl_cert_pem=CLIENT.keystore.decode()) == full


def test_a_temporary_file_is_for_its_owner_only(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    monkeypatch.setattr(tls, "_in_memory", lambda *_: None)
    load = ssl.SSLContext.load_cert_chain

    def look(self: ssl.SSLContext, certificate: str, *rest: Any) -> None:
        modes.append(stat.S_IMODE(Path(certificate).parent.stat().st_mode))
        load(self, certificate, *rest)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", look)
    Contexts(config(**forms(files)["two texts"]))
    assert modes == [0o700]


def test_options_reach_the_context() -> None:
    context = Contexts(config(ssl_check_hostname=False, ssl_ciphers="ECDHE-RSA-AES256-GCM-SHA384")).current()
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED, "only the name is not checked"
    names = {cipher["name"] for cipher in context.get_ciphers()}
    assert "ECDHE-RSA-AES256-GCM-SHA384" in names
    assert not [name for name in names if name.startswith("ECDHE") and name != "ECDHE-RSA-AES256-GCM-SHA384"]


def test_nothing_older_than_tls_1_2_is_spoken() -> None:
    assert Contexts(config()).current().minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_given_context_is_used_as_it_is() -> None:
    given = ssl.create_default_context()
    given.check_hostname = False
    contexts = Contexts(config(ssl_context=given))
    assert contexts.current() is contexts.current() is given
    assert not given.check_hostname


# -- what is refused


class Pretender:
    check_hostname = True

    def wrap_socket(self) -> None: ...


@pytest.mark.parametrize("given", [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), Pretender()], ids=["server", "pretender"])
def test_a_given_context_that_no_client_can_use_is_refused(given: Any) -> None:
    assert refused(ssl_context=given).startswith("ssl_context must be an ssl.SSLContext for clients")


@pytest.mark.parametrize("ciphers", ["NONSENSE", "TLS_AES_256_GCM_SHA384", "a\0b", "é"])
def test_ciphers_that_do_not_exist_are_refused(ciphers: str) -> None:
    assert refused(ssl_ciphers=ciphers) == f"ssl_ciphers={ciphers!r} names no cipher for TLS 1.2 that OpenSSL has"


@pytest.mark.parametrize("option", ["ssl_cafile", "ssl_certfile", "ssl_keyfile"])
def test_files_that_cannot_be_read_are_named(files: Files, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    others = {"ssl_certfile": files.write("c", CLIENT.chain)} if option == "ssl_keyfile" else {}
    missing, folder = str(files.folder / "missing.pem"), str(files.folder)
    assert refused(**others, **{option: missing}) == f"{option}={missing!r} cannot be read: No such file or directory"
    assert refused(**others, **{option: folder}) == f"{option}={folder!r} cannot be read: Is a directory"
    assert refused(**others, **{option: "a\0b"}) == f"{option}='a\\x00b' cannot be read: embedded null byte"
    monkeypatch.setattr(tls, "MAX_FILE_BYTES", 100)
    large = files.write("large", bytes(101))
    if not others:
        assert refused(**{option: large}) == f"{option}={large!r} has more than 100 bytes: it is not a file of certificates or keys"


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    assert "has more than" in refused(ssl_cafile="/dev/zero") if Path("/dev/zero").exists() else True


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "no certificate in PEM format; it is empty"),
        (b"garbage", "no certificate in PEM format; PEM begins with -----BEGIN CERTIFICATE-----"),
        (os.urandom(3000).replace(b"-", b"."), "no certificate in PEM format; "),
        (CLIENT.key, "no certificate in PEM format; PEM begins with -----BEGIN CERTIFICATE-----"),
        (b"\xfe\xed\xfe\xed\0\0\0\2", "it is a JKS: convert it with keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12"),
        (CLIENT.der, "it is DER: convert it with openssl x509 -inform DER -in {path} -out {path}.pem"),
        (AUTHORITY.pem[:300], "a certificate in it is damaged"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "a certificate in it is damaged"),
        (AUTHORITY.pem + AUTHORITY.pem[:300], "a certificate in it is damaged"),
    ],
    ids=["empty", "garbage", "random", "key", "JKS", "DER", "half", "damaged", "one-and-a-half"],
)
def test_what_is_no_certificate_is_named_with_a_way_out(files: Files, content: bytes, text: str) -> None:
    path = files.write("x.store", content)
    for option in ("ssl_cafile", "ssl_certfile"):
        message = refused(**{option: path})
        assert message.startswith(f"{option}={path!r}: ")
        assert text.format(path=path) in message


def test_a_pkcs12_store_is_named_with_the_conversion(files: Files) -> None:
    key = formats.load_pem_private_key(CLIENT.key, None)
    certificate = load_pem_x509_certificate(CLIENT.chain)
    store = pkcs12.serialize_key_and_certificates(b"x", key, certificate, None, formats.NoEncryption())  # type: ignore[arg-type]
    path = files.write("keystore", store)
    for option in ("ssl_cafile", "ssl_certfile"):
        assert f"it is PKCS12: convert it with openssl pkcs12 -in {path} -out {path}.pem" in refused(**{option: path})
    assert "it is PKCS12" in refused(ssl_certfile=files.write("c", CLIENT.chain), ssl_keyfile=path)


def test_texts_that_are_no_certificates_are_refused_without_showing_them() -> None:
    assert refused(ssl_ca_pem="ÄÖÜ").startswith("ssl_ca_pem: no certificate in PEM format")
    assert refused(ssl_cert_pem="marked").startswith("ssl_cert_pem: no certificate in PEM format")
    assert refused(ssl_cert_pem=CLIENT.chain.decode(), ssl_key_pem="marked").startswith("ssl_key_pem: no key in PEM format")
    assert refused(ssl_cert_pem=CLIENT.chain.decode()) == "ssl_cert_pem: it contains no key: set ssl_keyfile"


@pytest.mark.parametrize("option", ["ssl_ca_pem", "ssl_cert_pem", "ssl_key_pem"])
def test_a_certificate_of_a_wrong_type_is_not_shown(option: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**{option: CLIENT.keystore})
    assert str(caught.value).startswith(f"{option} is of type bytes: must be a non-empty string")


def test_a_key_that_does_not_belong_to_the_certificate_is_named(files: Files) -> None:
    of_another_kind = rsa.generate_private_key(65537, 2048).private_bytes(
        formats.Encoding.PEM, formats.PrivateFormat.PKCS8, formats.NoEncryption()
    )
    certificate = files.write("c", CLIENT.chain)
    for key in (OTHER.key, of_another_kind):
        path = files.write("k", key)
        assert refused(ssl_certfile=certificate, ssl_keyfile=path) == f"ssl_keyfile={path!r}: the key does not belong to the certificate"
        assert (
            refused(ssl_cert_pem=CLIENT.chain.decode(), ssl_key_pem=key.decode())
            == "ssl_key_pem: the key does not belong to the certificate"
        )


def test_a_key_that_is_too_short_for_openssl_is_named(files: Files) -> None:
    key = rsa.generate_private_key(65537, 1024)
    now, name = datetime.datetime.now(datetime.UTC), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "short")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    chain = builder.sign(key, hashes.SHA256()).public_bytes(formats.Encoding.PEM)
    pem = key.private_bytes(formats.Encoding.PEM, formats.PrivateFormat.PKCS8, formats.NoEncryption())
    certificate = files.write("c", chain)
    message = refused(ssl_certfile=certificate, ssl_keyfile=files.write("k", pem), ssl_ciphers="DEFAULT@SECLEVEL=2")
    assert message == f"ssl_certfile={certificate!r}: the key of the certificate is too small for OpenSSL: use a longer key"


def test_keys_that_are_none_are_named(files: Files) -> None:
    key = formats.load_pem_private_key(CLIENT.key, None)
    der = key.private_bytes(formats.Encoding.DER, formats.PrivateFormat.PKCS8, formats.NoEncryption())
    certificate = files.write("c", CLIENT.chain)
    for content, text in (
        (b"", "no key in PEM format; it is empty"),
        (b"garbage", "no key in PEM format; PEM begins with -----BEGIN PRIVATE KEY-----"),
        (CLIENT.key[:100] + b"\n-----END PRIVATE KEY-----\n", "the key in it is damaged"),
        (OTHER.chain, "no key in PEM format"),
        (der, "it is DER: convert it with openssl pkey -inform DER"),
    ):
        path = files.write("k", content)
        message = refused(ssl_certfile=certificate, ssl_keyfile=path)
        assert message.startswith(f"ssl_keyfile={path!r}: ")
        assert text in message
    path = files.write("c", CLIENT.chain)
    assert refused(ssl_certfile=path) == f"ssl_certfile={path!r}: it contains no key: set ssl_keyfile"


def of_type(value: object) -> Callable[[], Any]:
    return lambda: value


def raising() -> str:
    raise RuntimeError(PASSWORD)


@pytest.mark.parametrize(
    ("password", "text"),
    [
        (None, "the key is encrypted: set ssl_password"),
        ("wrong", "the key cannot be decrypted; is ssl_password right?"),
        (of_type("wrong"), "the key cannot be decrypted; is ssl_password right?"),
        (of_type(""), "the key cannot be decrypted; is ssl_password right?"),
        ("\udc80", "the key cannot be decrypted; is ssl_password right?"),
        (of_type(PASSWORD.encode()), "ssl_password returned bytes: it must return a str"),
        (of_type(None), "ssl_password returned NoneType: it must return a str"),
        (PASSWORD * 100, "ssl_password has more than 1,024 bytes, which OpenSSL does not accept"),
        (raising, f"ssl_password raised RuntimeError ({__file__}, line {raising.__code__.co_firstlineno + 1}, in raising)"),
    ],
)
@pytest.mark.parametrize("old", [False, True], ids=["PKCS8", "traditional"])
def test_what_is_wrong_with_a_password_is_said(files: Files, password: Any, text: str, old: bool) -> None:
    key = encrypted(CLIENT, old=old)
    certificate, path = files.write("c", CLIENT.chain), files.write("k", key)
    assert refused(ssl_certfile=certificate, ssl_keyfile=path, ssl_password=password).endswith(text)
    assert refused(ssl_cert_pem=(CLIENT.chain + key).decode(), ssl_password=password).endswith(text)


def test_nobody_is_asked_at_the_terminal(files: Files) -> None:
    """OpenSSL asks there if Python gives it no password."""
    code = """
import sys
sys.path[:0] = ["."]
from pykafka4.errors import ConfigError
from pykafka4.net.tls import Contexts
from pykafka4.options.security import SecurityConfig
try:
    Contexts(SecurityConfig(security_protocol="SSL", ssl_certfile=sys.argv[1], ssl_keyfile=sys.argv[2]))
except ConfigError as error:
    print(error)
"""
    arguments = [sys.executable, "-c", code, files.write("c", CLIENT.chain), files.write("k", encrypted(CLIENT))]
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, start_new_session=True, check=False
    )
    assert (done.stdout, done.stderr) == ("the key is encrypted: set ssl_password\n", "")


@posix
def test_a_key_that_others_can_read_is_warned_of_once(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    paths = forms(files)
    open_to_all = Path(paths["two files"]["ssl_keyfile"])
    open_to_all.chmod(0o644)
    Path(paths["two files"]["ssl_certfile"]).chmod(0o644)
    for _ in range(2):
        Contexts(config(**paths["two files"])).current()
    assert [record.getMessage() for record in caplog.records] == [
        f"the key in {open_to_all} can be read or changed by other users (mode 644): chmod 600"
    ]
    Contexts(config(**paths["file and text"]))
    assert len(caplog.records) == 1, "there is no key in that file"
    Path(paths["one file"]["ssl_certfile"]).chmod(0o640)
    Contexts(config(**paths["one file"]))
    assert "mode 640" in caplog.records[1].getMessage()


# -- changes


def test_the_context_stays_the_same_until_a_file_changes(files: Files) -> None:
    options = forms(files)["two files"] | {"ssl_cafile": files.write("ca", AUTHORITY.pem)}
    contexts = Contexts(config(**options))
    first = contexts.current()
    assert contexts.current() is first
    for option in options:
        path = Path(options[option])
        path.write_bytes(path.read_bytes() + b"\n")
        changed = contexts.current()
        assert changed is not first
        assert contexts.current() is changed
        first = changed


def test_a_new_certificate_is_shown_by_the_next_connection(files: Files) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*AUTHORITY.server("localhost").write(files.folder, "server"))
    server.load_verify_locations(cadata=AUTHORITY.pem.decode())
    server.verify_mode = ssl.CERT_REQUIRED
    contexts = Contexts(config(**forms(files)["two files"]))
    assert "alice" in str(shown_to(server, contexts))
    files.write("c", OTHER.chain)
    files.write("k", OTHER.key)
    assert "bob" in str(shown_to(server, contexts))


def test_files_that_are_being_replaced_keep_the_old_ones_in_use(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    contexts = Contexts(config(**forms(files)["two files"]))
    first = contexts.current()
    for broken in (OTHER.chain, b"", CLIENT.chain[:100], None):  # a key that does not belong, an empty file, a half one, none
        caplog.clear()
        if broken is None:
            (files.folder / "c").unlink()
        else:
            files.write("c", broken)
        for _ in range(3):
            assert contexts.current() is first
        assert len(caplog.records) == 1
        assert caplog.records[0].levelno == logging.WARNING
        assert (
            caplog.records[0]
            .getMessage()
            .startswith("pykafka4: the certificates cannot be used now; the client continues with the last ones: ")
        )
        assert not [secret for secret in SECRETS if secret in caplog.text]
        files.write("c", CLIENT.chain)
        assert contexts.current() is first
    files.write("c", OTHER.chain)
    files.write("k", OTHER.key)
    assert contexts.current() is not first


def test_a_password_is_asked_for_again_only_with_the_files(files: Files) -> None:
    asked = []

    def password() -> str:
        asked.append(None)
        return PASSWORD

    options = forms(files)["password"] | {"ssl_password": password}
    contexts = Contexts(config(**options))
    once = len(asked)
    contexts.current()
    assert len(asked) == once > 0
    files.write("c", CLIENT.chain + b"\n")
    contexts.current()
    assert len(asked) == 2 * once


def test_options_with_texts_read_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = Contexts(config())
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("a file was opened"))
    assert contexts.current() is contexts.current()


# -- errors of connections


class Unknown(ssl.SSLError):
    """As when OpenSSL is newer than Python: `reason` is None."""

    reason = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[SSL] tlsv13 alert certificate required (_ssl.c:1006)", "TLSV13_ALERT_CERTIFICATE_REQUIRED (the broker demands a certificate"),
        ("record layer failure (_ssl.c:1006)", "RECORD_LAYER_FAILURE (it does not speak TLS"),
        ("", "Unknown"),
    ],
)
def test_a_reason_that_python_does_not_know_has_its_hint(text: str, expected: str) -> None:
    assert str(tls.explain_handshake("k:1", Unknown(1, text), b"")).startswith(f"k:1: TLS handshake failed: {expected}")


@pytest.mark.parametrize("error", [TimeoutError(110, "Connection timed out"), OSError(113, "No route to host")])
def test_a_network_that_fails_during_the_handshake_says_nothing_of_the_client(error: OSError) -> None:
    reason = tls.explain_handshake("k:1", error, b"")
    assert type(reason) is ConnectionLost
    assert str(reason) == f"k:1: {str(error.strerror).lower()} during the TLS handshake"


def test_the_end_of_a_connection_is_told_from_its_failure() -> None:
    assert str(tls.explain_tls("k:1", ssl.SSLEOFError(8, "EOF"))) == "k:1: the broker closed the connection"
    assert str(tls.explain_tls("k:1", ConnectionResetError(104, "Connection reset by peer"))) == "k:1: connection reset by peer"


def quoted(pem: str) -> str:
    return f'"{pem}"'


SPELLINGS: list[Callable[[str], str]] = [
    lambda pem: pem.replace("\n", "\\n"),
    lambda pem: pem.replace("\n", "\\r\\n"),
    lambda pem: pem.replace("\n", "\\\\n"),
    lambda pem: pem.replace("\n", "\r\n"),
    lambda pem: pem.replace("\n", "\r"),
    lambda pem: pem.replace("\n", " "),
    lambda pem: pem.replace("\n", ""),
    lambda pem: pem.replace("\n", "\n    "),
    lambda pem: "    " + pem.replace("\n", "\n\t").strip(),
    lambda pem: quoted(pem.replace("\n", "\\n")),
    lambda pem: f"a comment: äöü\n{pem}",
]


@pytest.mark.parametrize("spell", SPELLINGS)
def test_pem_text_is_read_whatever_its_line_ends_became(spell: Callable[[str], str]) -> None:
    chain, key, authority = (spell(text.decode()) for text in (CLIENT.chain, CLIENT.key, AUTHORITY.pem))
    context = Contexts(config(ssl_ca_pem=authority, ssl_cert_pem=chain, ssl_key_pem=key)).current()
    assert context.cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize(
    "spell", [lambda pem: pem.replace("\n", "\\n"), lambda pem: pem.replace("\n", "\\r\\n"), lambda pem: pem.replace("\n", "\n  ")]
)
def test_an_encrypted_key_with_headers_is_read_as_well(spell: Callable[[str], str]) -> None:
    key = spell(encrypted(CLIENT, old=True).decode())
    Contexts(config(ssl_cert_pem=CLIENT.chain.decode(), ssl_key_pem=key, ssl_password=PASSWORD)).current()


def test_a_common_name_is_no_name_of_a_broker() -> None:
    assert Contexts(config()).current().hostname_checks_common_name is False


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, None),
        ({"ssl_check_hostname": False}, "host names are not checked"),
        ({"ssl_context": ssl.create_default_context()}, None),
        ({"ssl_context": unverified()}, "does not verify certificates"),
    ],
)
def test_a_client_that_cannot_tell_a_stranger_warns_once(
    options: dict[str, Any], says: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = Contexts(config(**options), "c")
    contexts.current()
    assert [says in line.getMessage() for line in caplog.records] == ([] if says is None else [True])
