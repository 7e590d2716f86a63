"""Properties. Rule: a property of Java's or librdkafka's clients becomes an option, or is ignored or refused with the reason; none is lost.

Names without effect here, and those of options with another name, are in `pykafka4.peers`; types and ranges are those of `pykafka4.config`.
The names of TLS and SASL are in `pykafka4.properties_security`. No value that may be secret is in an error, a log line or a `repr`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from pykafka4.errors import ConfigError, shown, with_article
from pykafka4.logs import get_log
from pykafka4.options.config import ClientConfig, ConsumerConfig, ProducerConfig
from pykafka4.options.policies import LEVELS
from pykafka4.options.share import ShareConsumerConfig
from pykafka4.partitioners import NAMED
from pykafka4.peers import AS_HERE, OPTIONS, PREFIXES, UNITS, Harmless, Needless, Similar
from pykafka4.properties_security import NAMES, Property, by_prefix
from pykafka4.serializers import NAMED as NAMED_SERIALIZERS

__all__ = ["Properties", "Translation", "create", "passed", "read", "translate"]

Properties: TypeAlias = str | os.PathLike[str] | Mapping[str, str | int | float | bool | None]

log = get_log("pykafka4.config")
T = TypeVar("T")

LARGEST_FILE: Final = 2**20  # bytes
LINE_END: Final = re.compile(r"\r\n|\r|\n")
KINDS: Final = (ClientConfig, ProducerConfig, ConsumerConfig, ShareConsumerConfig)
OURS: Final = {field.name for kind in KINDS for field in attrs.fields(kind)}
BOOLEANS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}  # librdkafka's; Java has the long ones
WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{0,20})?")
RESETS: Final = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest", "error": "none"}
ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}

SHARED_ONLY: Final[Mapping[str, Harmless]] = dict.fromkeys(
    ("share_acknowledgement_mode", "share_acquire_mode"), Harmless("share groups have a consumer of their own, ShareConsumer")
)
RACK_OF_PRODUCER: Final = Harmless("producers choose partitions without regard to racks")
PARTITIONERS: Final = {  # Java's classes
    "DefaultPartitioner": "murmur2",
    "UniformStickyPartitioner": "random",
    "RoundRobinPartitioner": "round_robin",
}


SERIALIZERS: Final = {  # Java's classes
    "ByteArraySerializer": "bytes",
    "ByteBufferSerializer": "bytes",
    "BytesSerializer": "bytes",
    "JsonSerializer": "json",
    "KafkaJsonSerializer": "json",
    "StringSerializer": "str",
}


def create(make: Callable[..., T], kind: type[ClientConfig], source: Properties, more: Mapping[str, Any]) -> T:
    """`make(**options)` with the options of `source` and `more`, which wins. A note on its ConfigError says where an option is from."""
    found = translate(kind, source, more)
    try:
        return make(**found.options, **more)
    except ConfigError as error:
        named = [f"{option} is {item.name} of {item.where}" for option, item in found.origins.items() if _names(str(error), option)]
        if named:
            error.add_note("; ".join(named))
        raise


def passed(options: Mapping[str, Any], **others: object) -> dict[str, Any]:
    """`options` and those of `others` that are not None: a subclass may not have these."""
    return {**options, **{name: value for name, value in others.items() if value is not None}}


def _names(message: str, option: str) -> bool:
    return re.search(rf"\b{option}\b", message) is not None


def translate(kind: type[ClientConfig], source: Properties, more: Mapping[str, Any]) -> Translation:
    """The options in `source` without those in `more`. What is ignored is logged. Raises ConfigError, TypeError, OSError."""
    found = Translation(kind, {item.name: item for item in read(source)}, more)
    for item in found.items.values():
        found.take(item)
    found.log_ignored()
    return found


# -- reading


def read(source: Properties) -> Iterator[Property]:
    """The properties of a file or mapping, in order. If a file has a name twice, the last one counts, as in Java."""
    if isinstance(source, Mapping):
        return (_of_mapping(name, value) for name, value in source.items())
    if isinstance(source, (str, os.PathLike)):
        return _of_file(Path(source))
    raise TypeError(f"expected the path of a .properties file, or a mapping of names to values, not {with_article(type(source).__name__)}")


def _of_mapping(name: object, value: object) -> Property:
    if not isinstance(name, str):
        raise TypeError(f"the mapping: a name must be a str, not {shown(name)}")
    return Property(str.__str__(name), value, "the mapping")


def _of_file(path: Path) -> Iterator[Property]:
    from javaproperties import InvalidUEscapeError, KeyValue, parse  # here, as few applications need it

    data = _content(path)
    if len(data) > LARGEST_FILE:
        raise ConfigError(f"{path}: larger than {LARGEST_FILE:,} bytes, so it is not a file of properties")
    elements, line = parse(_decoded(data)), 1
    while True:
        try:
            element = next(elements, None)
        except InvalidUEscapeError:  # its message has a part of the value, so it must not become a context
            break
        if element is None:
            return
        if isinstance(element, KeyValue):
            yield Property(element.key, element.value.strip(), f"{path}, line {line}")
        line += len(LINE_END.findall(element.source))
    raise ConfigError(f"{path}, line {line}: \\u needs four hexadecimal digits; write \\\\ for a backslash")


def _content(path: Path) -> bytes:
    """Of the file. A text of properties is no path, and must not be in the error: it may hold a password."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_FILE + 1)
    except (OSError, ValueError):
        if "=" not in str(path) and "\n" not in str(path):
            raise
    raise ConfigError("what was passed is no path of a file that can be read, but perhaps the content of one: pass its path, or a dict")


def _decoded(data: bytes) -> str:
    """Java reads ISO-8859-1, and editors write UTF-8: text in ISO-8859-1 with other characters than ASCII is hardly ever valid UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


# -- translating


@attrs.define
class Translation:
    """The options found so far."""

    kind: type[ClientConfig]
    items: dict[str, Property] = attrs.field(repr=False)
    given: Mapping[str, Any] = attrs.field(repr=False)  # options that the application passes itself, which win
    options: dict[str, Any] = attrs.field(factory=dict, repr=False)
    origins: dict[str, Property] = attrs.field(factory=dict)
    _checked: dict[str, Any] = attrs.field(factory=dict, repr=False)
    _ignored: dict[str, list[str]] = attrs.field(factory=dict)  # by reason

    def take(self, item: Property) -> None:
        """Translate one property."""
        plain = item.name.replace(".", "_")
        if plain in LEVEL_OF and issubclass(self.kind, ProducerConfig):
            self._level(item, plain, LEVEL_OF[plain])
            return
        security = NAMES.get(plain) or by_prefix(plain)
        if security is not None:
            security(self, item)
            return
        ours = plain if plain in OURS else OPTIONS.get(plain) or _harmless(plain)
        if ours == "client_rack" and not issubclass(self.kind, (ConsumerConfig, ShareConsumerConfig)):
            ours = RACK_OF_PRODUCER
        if self.kind is ConsumerConfig and ours is not None and ours in SHARED_ONLY:
            ours = SHARED_ONLY[ours]
        if isinstance(ours, Needless):
            self._without(item, plain, ours)
        elif ours is None or ours not in OURS or isinstance(ours, Similar):
            raise self._unknown(item, ours)
        elif ours not in attrs.fields_dict(self.kind):
            raise item.error(f"it is {_owner(ours)} option; {_kind(self.kind)}s do not have it")
        elif "_" in item.name:
            raise self._unknown(item, ours)
        elif not item.empty and ours not in self.given:
            self._option(item, ours, plain)

    def set(self, option: str, item: Property, value: Any, checked: Any = None) -> None:
        """Set an option, unless the application passes it itself."""
        if option in self.given:
            return
        checked = value if checked is None else checked
        if self._checked.setdefault(option, checked) != checked:
            earlier = self.origins[option]
            raise item.error(f"{earlier} ({earlier.where}) sets the same option, {option}, to another value; remove one of the two")
        if option not in self.options:
            self.options[option], self.origins[option] = value, item

    def ignore(self, item: Property, why: str) -> None:
        """Report that the property has no effect."""
        self._ignored.setdefault(why, []).append(item.name)

    def log_ignored(self) -> None:
        """One line for all properties without effect."""
        if self._ignored:
            client_id = self.given.get("client_id") or self.options.get("client_id") or attrs.fields_dict(ClientConfig)["client_id"].default
            reasons = "; ".join(f"{', '.join(names)} ({why})" for why, names in self._ignored.items())
            log.info("%s: ignored properties: %s", client_id, reasons)

    def _option(self, item: Property, option: str, plain: str) -> None:
        field = attrs.fields_dict(self.kind)[option]
        spelling = _SPELLINGS.get(option)
        value = _typed(item, field, UNITS.get(plain, 1)) if spelling is None else spelling(self, item, item.text())
        if value is None:  # the property is ignored
            return
        try:
            convert: Any = field.converter
            checked = value if convert is None else convert(value)
            if field.validator is not None:
                field.validator(None, field, checked)
        except ConfigError as error:
            why = "the value is not allowed" if item.secret else str(error).removeprefix(f"{option}={shown(value)}: ")
            raise item.error(why) from None
        self.set(option, item, value, checked)

    def _level(self, item: Property, plain: str, codec: str | None) -> None:
        """The level of `codec`, as in Java, or of the codec that is used, as in librdkafka. In both -1 is the default of gzip."""
        used = str(self.given.get("compression_type") or self._codec())
        if item.empty or (str(item.value).strip() == "-1" and codec in (None, "gzip")):
            return
        if used != (codec or used) or used not in LEVELS:
            self.ignore(item, f"compression_type is {used!r}")
        elif "compression_level" not in self.given:
            self._option(item, "compression_level", plain)

    def _codec(self) -> str:
        plain = {item.name.replace(".", "_"): item for item in self.items.values()}
        named = [item for name, item in plain.items() if name == "compression_type" or OPTIONS.get(name) == "compression_type"]
        return named[0].text() if named and not named[0].empty else "none"

    def _lower(self, item: Property, value: str) -> str:
        return value.lower()

    def _reset(self, item: Property, value: str) -> str:
        return RESETS.get(value.lower(), value.lower())

    def _assignors(self, item: Property, value: str) -> str:
        """Our names for Java's classes. Those that this version lacks are left out: a group uses an assignor that all members have."""
        classes = [part.strip().rpartition(".")[2] for part in value.split(",") if part.strip()]
        names = [ASSIGNORS.get(name, name) for name in classes]
        known = str(attrs.fields_dict(ConsumerConfig)["partition_assignment_strategy"].metadata["range"]).split(", ")
        supported, other = [name for name in names if name in known], [name for name in names if name not in known]
        if not supported:
            raise item.error(f"this version has only {', '.join(known)}; one of them must be in the list, in all members of the group")
        if other:
            self.ignore(item, f"without {', '.join(other)}, which this version lacks")
        return ",".join(supported)

    def _partitioner(self, item: Property, value: str) -> str:
        """Java's classes, and librdkafka's names, of which one is another partitioner than Java's `murmur2`."""
        if item.name != "partitioner.class":
            return "murmur2_consistent" if value == "murmur2" else value
        name = value.rpartition(".")[2]
        if name not in PARTITIONERS:
            if value in NAMED:
                return value
            raise item.error(f"{name} is Java's; choose one of the names of the option partitioner, or pass a callable as partitioner")
        return PARTITIONERS[name]

    def _serializer(self, item: Property, value: str) -> str | None:
        """Java's classes. Others cannot be loaded; without a serializer, `send` takes bytes and str."""
        name = value.rpartition(".")[2]
        if value not in NAMED_SERIALIZERS and name not in SERIALIZERS:
            self.ignore(item, "classes of Java cannot be loaded: pass key_serializer or value_serializer a callable, or bytes to `send`")
            return None
        return SERIALIZERS.get(name, value)

    def _without(self, item: Property, plain: str, why: Needless) -> None:
        """A property that corresponds to no option."""
        if item.empty or re.fullmatch(AS_HERE.get(plain, "(?!)"), str(item.value), re.IGNORECASE):
            return
        if not isinstance(why, Harmless):
            raise item.error(f"{why}; remove the property")
        self.ignore(item, why)

    def _unknown(self, item: Property, ours: str | None) -> ConfigError:
        """Without the value: it may be that of a misspelt `sasl.jaas.config`."""
        known = [name.replace("_", ".") for name in self._known()]
        plain = re.sub("[_-]", ".", item.name).lower()
        near = [ours.replace("_", ".")] if isinstance(ours, Similar) else difflib.get_close_matches(plain, known, n=1, cutoff=0.75)
        hint = f"did you mean {near[0]!r}?" if near else "docs/guide/properties.md says which properties are known"
        return ConfigError(f"{item.where}: unknown {_kind(self.kind)} property {shown(item.name)}; {hint}")

    def _known(self) -> Iterable[str]:
        ours = attrs.fields_dict(self.kind)
        return [*ours, *NAMES, *(name for name, target in OPTIONS.items() if target in ours or isinstance(target, Needless))]


# Names of the level of a codec; None: of the one that is used.
LEVEL_OF: Final[dict[str, str | None]] = {"compression_level": None, **{f"compression_{codec}_level": codec for codec in LEVELS}}
_SPELLINGS: Final[dict[str, Callable[[Translation, Property, str], str | None]]] = {
    "auto_offset_reset": Translation._reset,
    "group_protocol": Translation._lower,
    "partition_assignment_strategy": Translation._assignors,
    "key_serializer": Translation._serializer,
    "partitioner": Translation._partitioner,
    "value_serializer": Translation._serializer,
}


def _harmless(name: str) -> Harmless | None:
    """The reason to ignore all properties with that beginning."""
    return next((why for start, why in PREFIXES.items() if isinstance(why, Harmless) and name.startswith(start)), None)


def _typed(item: Property, field: attrs.Attribute[Any], unit: int) -> Any:
    """The value as the option's type, which its metadata say; anything else unchanged, for the option's check to refuse."""
    value, data = item.value, field.metadata
    if data["range"] == "True, False":
        text = str(value).strip().lower()
        if text not in BOOLEANS:
            raise item.error("must be true or false")
        return BOOLEANS[text]
    if not data["unit"]:
        return value if isinstance(value, (bool, Mapping)) or callable(value) else item.text()
    if isinstance(value, str):
        text = value.strip()
        if WHOLE.fullmatch(text):
            value = int(text)
        elif data["unit"] in ("ms", "ratio") and DECIMAL.fullmatch(text):
            value = float(text)
        else:
            raise item.error(f"must be a number of {'milliseconds' if data['unit'] == 'ms' else data['unit']}, in digits only")
    return value if isinstance(value, bool) or not isinstance(value, (int, float)) or unit == 1 else value * unit


def _kind(kind: type[ClientConfig]) -> str:
    return "share consumer" if kind is ShareConsumerConfig else kind.__name__.removesuffix("Config").lower()


def _owner(option: str) -> str:
    """Whose option it is, if another kind of client does not have it."""
    return next(f"a {_kind(kind)}" for kind in (ProducerConfig, ConsumerConfig, ShareConsumerConfig) if option in attrs.fields_dict(kind))
