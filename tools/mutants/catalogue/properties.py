"""Bugs of properties: what is dropped silently, converted wrongly, or shown although it is secret."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/properties.py",
        old='return data.decode("utf-8-sig")',
        new='return data.decode("utf-8")',
        breaks="the mark at the beginning of a UTF-8 file becomes a part of the first name",
        tests=("tests/test_properties.py::test_a_file_may_be_utf_8_or_iso_8859_1",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old='return data.decode("iso-8859-1")',
        new='return data.decode("utf-8", "replace")',
        breaks="umlauts of ISO-8859-1 are replaced",
        tests=("tests/test_properties.py::test_a_file_may_be_utf_8_or_iso_8859_1",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="file.read(LARGEST_FILE + 1)",
        new="file.read(LARGEST_FILE)",
        breaks="a file that is too large is cut off",
        tests=("tests/test_properties.py::test_a_file_that_is_too_large_is_refused_and_the_largest_is_read",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="line += len(LINE_END.findall(element.source))",
        new="line += 1",
        breaks="the lines of a continued value are not counted",
        tests=("tests/test_properties.py::test_lines_are_counted_whatever_ends_them",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old='re.compile(r"\\r\\n|\\r|\\n")',
        new='re.compile(r"\\n")',
        breaks="lines that end as on old Macs are not counted",
        tests=("tests/test_properties.py::test_lines_are_counted_whatever_ends_them",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="Property(element.key, element.value.strip(), ",
        new="Property(element.key, element.value, ",
        breaks="blanks after a value belong to it, unlike in Java",
        tests=("tests/test_properties.py::test_a_file_is_read_as_java_reads_it_and_each_property_knows_its_line",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="        elif not item.empty and ours not in self.given:",
        new="        elif not item.empty:",
        breaks="a value in the file is checked although a keyword replaces it",
        tests=("tests/test_properties.py::test_a_keyword_replaces_even_a_value_that_is_not_supported",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="        elif not item.empty and ours not in self.given:",
        new="        elif ours not in self.given:",
        breaks="an empty value is not the default",
        tests=("tests/test_properties.py::test_every_option_can_be_set_by_its_name_with_dots",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="        if option in self.given:\n            return\n",
        new="",
        breaks="a keyword does not win over credentials in the file",
        tests=("tests/test_properties_security.py::test_names_of_tls_and_sasl_become_options",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="if self._checked.setdefault(option, checked) != checked:",
        new="if False:",
        breaks="of two values for one option the second is dropped silently",
        tests=("tests/test_properties.py::test_what_is_wrong_or_not_supported_is_refused_with_the_reason",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old='        elif "_" in item.name:\n            raise self._unknown(item, ours)\n',
        new="",
        breaks="two spellings of each name are taken",
        tests=("tests/test_properties.py::test_what_is_wrong_or_not_supported_is_refused_with_the_reason",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="value if isinstance(value, bool) or not isinstance(value, (int, float)) or unit == 1 else value * unit",
        new="value",
        breaks="kilobytes are taken for bytes",
        tests=("tests/test_properties.py::test_names_units_and_values_are_converted",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old='re.compile(r"[+-]?[0-9]{1,20}")',
        new='re.compile(r"[+-]?\\d{1,20}")',
        breaks="digits of other scripts are taken",
        tests=("tests/test_properties.py::test_what_is_wrong_or_not_supported_is_refused_with_the_reason",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old='RESETS: Final = {"smallest": "earliest", ',
        new='RESETS: Final = {"smallest": "latest", ',
        breaks="smallest is the end of the log",
        tests=("tests/test_properties.py::test_names_units_and_values_are_converted",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="RESETS.get(value.lower(), value.lower())",
        new="RESETS.get(value, value)",
        breaks="the case of auto.offset.reset matters",
        tests=("tests/test_properties.py::test_names_units_and_values_are_converted",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="        if not supported:\n",
        new="        if other:\n",
        breaks="an assignor that only other members have refuses the whole list",
        tests=("tests/test_properties.py::test_names_units_and_values_are_converted",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="str(item.value), re.IGNORECASE)",
        new="str(item.value))",
        breaks="True and TRUE are not true",
        tests=("tests/test_properties.py::test_a_value_with_which_another_client_does_the_same_is_taken",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="re.fullmatch(AS_HERE",
        new="re.match(AS_HERE",
        breaks="any value that begins like the supported one is taken",
        tests=("tests/test_properties.py::test_a_value_with_which_another_client_does_the_same_is_taken",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="if not isinstance(why, Harmless):",
        new="if False:",
        breaks="transactional.id is ignored",
        tests=("tests/test_properties.py::test_what_is_wrong_or_not_supported_is_refused_with_the_reason",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old='property {shown(item.name)}; {hint}")',
        new='property {item.name}={shown(item.value)}; {hint}")',
        breaks="the value of a misspelt name is shown",
        tests=("tests/test_properties_security.py::test_a_secret_is_in_no_error_log_line_or_repr",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="    options: dict[str, Any] = attrs.field(factory=dict, repr=False)",
        new="    options: dict[str, Any] = attrs.field(factory=dict)",
        breaks="a translation shows passwords",
        tests=("tests/test_properties_security.py::test_a_secret_is_in_no_error_log_line_or_repr",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="return make(**found.options, **more)",
        new="return make(**found.options)",
        breaks="keywords are dropped",
        tests=("tests/test_properties.py::test_a_subclass_is_made_by_its_own_constructor_and_keywords_win",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old='error.add_note("; ".join(named))',
        new="pass",
        breaks="an error about two options does not say where they are",
        tests=("tests/test_properties.py::test_options_that_do_not_fit_together_are_found_in_the_file",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old="{name: value for name, value in others.items() if value is not None}",
        new="others",
        breaks="a subclass without the argument client cannot be made",
        tests=("tests/test_properties.py::test_a_subclass_is_made_by_its_own_constructor_and_keywords_win",),
    ),
    Mutant(
        file="pykafka4/properties.py",
        old='        if "=" not in str(path) and "\\n" not in str(path):\n            raise\n',
        new="        raise\n",
        breaks="a text of properties in place of a path is shown in the error",
        tests=("tests/secrets/test_secrets.py::test_calls_that_are_wrong",),
    ),
)
