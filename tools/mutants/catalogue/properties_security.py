"""Bugs of the properties of TLS and SASL: what is dropped silently, taken wrongly, or shown although it is secret."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/properties_security.py",
        old="    value: Any = attrs.field(repr=False)",
        new="    value: Any",
        breaks="a property shows its password",
        tests=("tests/test_properties_security.py::test_a_secret_is_in_no_error_log_line_or_repr",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='"user.?name|password|passphrase|jaas',
        new='"user.?name|passphrase|jaas',
        breaks="a wrong password is in the error",
        tests=("tests/test_properties_security.py::test_a_secret_is_in_no_error_log_line_or_repr",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='        if form != "PEM":\n',
        new="        if False:\n",
        breaks="a JKS store is taken for PEM",
        tests=("tests/test_properties_security.py::test_a_store_of_java_is_refused_with_the_commands_that_convert_it",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='"-nokeys" if name == "truststore" else "-nodes"',
        new='"-nokeys"',
        breaks="the converted store of a client has no key",
        tests=("tests/test_properties_security.py::test_a_store_of_java_is_refused_with_the_commands_that_convert_it",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old="-srckeystore {shlex.quote(location)}",
        new="-srckeystore {location}",
        breaks="a blank in a file name breaks the command",
        tests=("tests/test_properties_security.py::test_a_store_of_java_is_refused_with_the_commands_that_convert_it",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='pkcs12 += ".p12" if pkcs12 == location else ""',
        new="pass",
        breaks="a store is converted onto itself",
        tests=("tests/test_properties_security.py::test_a_store_of_java_is_refused_with_the_commands_that_convert_it",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='item, value == "https")',
        new='item, value != "none")',
        breaks="an empty algorithm leaves the check of host names on",
        tests=("tests/test_properties_security.py::test_names_of_tls_and_sasl_become_options",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='if str(item.value).strip().lower() in ("false", "f", "0"):',
        new="if False:",
        breaks="a request not to verify certificates is dropped silently",
        tests=("tests/test_properties_security.py::test_what_tls_and_sasl_cannot_do_here_is_refused_with_the_way_out",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='if any(name.startswith(("TLS_", "SSL_")) for name in names):',
        new="if False:",
        breaks="Java's names of ciphers reach OpenSSL",
        tests=("tests/test_properties_security.py::test_what_tls_and_sasl_cannot_do_here_is_refused_with_the_way_out",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='":".join(names)',
        new='",".join(names)',
        breaks="ciphers are separated as in Java",
        tests=("tests/test_properties_security.py::test_names_of_tls_and_sasl_become_options",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='if item.value != "probe":',
        new="if True:",
        breaks="a file named probe is looked for",
        tests=("tests/test_properties_security.py::test_names_of_tls_and_sasl_become_options",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='found.set("security_protocol", item, item.text().strip().upper())',
        new='found.set("security_protocol", item, item.text().strip())',
        breaks="librdkafka's sasl_ssl is refused",
        tests=("tests/test_properties_security.py::test_names_of_tls_and_sasl_become_options",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='    if value == "GSSAPI" and not _sasl(found):\n',
        new="    if False:\n",
        breaks="a file with Java's defaults is refused",
        tests=("tests/test_properties_security.py::test_names_of_tls_and_sasl_become_options",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old="ESCAPE.sub(_unescaped, value[1:-1])",
        new="value[1:-1]",
        breaks="a quote in a password keeps its backslash",
        tests=("tests/test_properties_security.py::test_quoted_values_of_jaas_are_read_back",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old="[0-3][0-7]{0,2}|[4-7][0-7]?|.",
        new="[0-7]{1,3}|.",
        breaks="octal escapes are longer than Java's",
        tests=("tests/test_properties_security.py::test_escapes_in_jaas_are_those_of_javas_tokenizer",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old=' or tokens.index(("sign", ";")) != len(tokens) - 1',
        new="",
        breaks="of two login modules the second is not noticed",
        tests=("tests/test_properties_security.py::test_what_tls_and_sasl_cannot_do_here_is_refused_with_the_way_out",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='if options.get("tokenauth", "").lower() == "true":',
        new="if False:",
        breaks="a delegation token is sent as a password",
        tests=("tests/test_properties_security.py::test_what_tls_and_sasl_cannot_do_here_is_refused_with_the_way_out",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='textwrap.wrap("".join(block[2].split()), 64)',
        new="block[2].strip()",
        breaks="PEM on one line stays on one line",
        tests=("tests/test_properties_security.py::test_pem_on_one_line_gets_the_line_ends_that_openssl_needs",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='        if "-----BEGIN" in item.text():\n',
        new="        if False:\n",
        breaks="a key in place of a store's path is shown in the error",
        tests=("tests/secrets/test_secrets.py::test_calls_that_are_wrong",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='_sasl(found) and _chosen_mechanism(found) == "GSSAPI"',
        new="True",
        breaks="Java's default name of the Kerberos service is refused with SCRAM",
        tests=("tests/test_properties_security.py::test_kerberos_is_configured_where_it_is_chosen",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='    if has_keytab and "keyTab" not in options:\n',
        new="    if False:\n",
        breaks="a login module that wants a keytab takes the ticket cache of kinit",
        tests=("tests/test_properties_security.py::test_what_tls_and_sasl_cannot_do_here_is_refused_with_the_way_out",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old='    if "ticketCache" in options and not has_keytab:\n',
        new="    if False:\n",
        breaks="another ticket cache than the configured one is used",
        tests=("tests/test_properties_security.py::test_what_tls_and_sasl_cannot_do_here_is_refused_with_the_way_out",),
    ),
    Mutant(
        file="pykafka4/properties_security.py",
        old="    if has_keytab:\n",
        new="    if True:\n",
        breaks="a keytab that Java does not use is used",
        tests=("tests/test_properties_security.py::test_names_of_tls_and_sasl_become_options",),
    ),
)
