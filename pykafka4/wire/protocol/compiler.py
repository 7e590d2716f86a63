"""Compiles one flat encode function and one flat decode function for each version of a message, on its first use.

Invariant: emitted code checks lengths against the bytes left, and subtracts the memory of arrays, strings and tagged fields from a budget,
`room`, before it allocates that memory (`weight.py`).

Lines of a decode function have labels, so that errors can name the field at no cost in the normal case. One `struct`
call packs or unpacks neighbouring fixed-size fields, length prefixes and empty tag sections: `run` collects them, `flush` emits the call.
"""

from __future__ import annotations

import functools
import linecache
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeAlias

import attrs

from pykafka4.errors import UnsupportedVersion
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.emitted import MAX_ELEMENTS, MAX_TAGS, NAMES, NUMBERS, PACKERS, TABLE
from pykafka4.wire.protocol.fields import Kind, WireType, array, bytestring, default_of, fields_at, records, spec_of, string, uuid
from pykafka4.wire.protocol.weight import SLOT, WIDEST, is_number, least_size, weight

__all__ = ["Decoder", "Encoder", "decoder", "encoder", "field_at_fault"]

Encoder: TypeAlias = Callable[[Any], list[Buffer]]
Decoder: TypeAlias = Callable[..., tuple[Any, int]]


# -- emitting --------------------------------------------------------------------


class _Source:
    """The lines of a function, their labels, and their constants."""

    def __init__(self, head: str) -> None:
        self.lines, self.labels, self.names = [head], [""], dict(NAMES)
        self.indent, self.serial, self.label = 1, 0, ""

    def __call__(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)
        self.labels.append(self.label)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self(head)
        self.indent += 1
        yield
        self.indent -= 1

    @contextmanager
    def about(self, label: str) -> Iterator[None]:
        before, self.label = self.label, label
        yield
        self.label = before

    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def constant(self, prefix: str, value: Any) -> str:
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def function(self, title: str) -> Any:
        text = "\n".join(self.lines) + "\n"
        filename = f"<pykafka4 {title}>"  # the key under which `field_at_fault` finds the labels
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.names)
        _LABELS[filename] = self.labels
        return self.names[self.lines[0].removeprefix("def ").partition("(")[0]]


_LABELS: dict[str, list[str]] = {}


def field_at_fault(error: BaseException) -> str:
    """The label of the emitted line that raised `error`, such as `Class.field`; "" if there is none."""
    found, step = "", error.__traceback__
    while isinstance(step, TracebackType):
        labels = _LABELS.get(step.tb_frame.f_code.co_filename)
        if labels is not None:
            found = labels[step.tb_lineno - 1]  # no `break`: the last one found is the innermost
        step = step.tb_next
    return found


def _holds_records(type: WireType) -> bool:
    if isinstance(type, array):
        return _holds_records(type.of)
    return type is records if isinstance(type, Kind) else any(_holds_records(spec_of(field).type) for field in attrs.fields(type))


def _numbers_in(type: WireType) -> set[str]:
    if isinstance(type, array):
        return {type.of.fmt} if is_number(type.of) else _numbers_in(type.of)
    return set() if isinstance(type, Kind) else set[str]().union(*(_numbers_in(spec_of(field).type) for field in attrs.fields(type)))


# -- encode ----------------------------------------------------------------------


class _Encode:
    """Emits `encode(obj) -> list of buffers`."""

    def __init__(self, cls: type, version: int, *, flexible: bool) -> None:
        self.version, self.flexible, self.put = version, flexible, "put"
        self.run: list[tuple[str, str]] = []  # (expression, struct letters) of neighbours that one `struct` call will pack
        self.src = src = _Source("def encode(obj):")
        src("out = []; parts = []; put = parts.append")
        self.struct("obj", cls)
        self.flush()
        with src.block("if parts:"):
            src("out.append(join(parts))")
        src("return out")

    def flush(self) -> None:
        if self.run:
            packed = self.src.constant("pack", struct.Struct(">" + "".join(fmt for _, fmt in self.run)).pack)
            self.src(f"{self.put}({packed}({', '.join(expr for expr, _ in self.run if expr)}))")
            self.run.clear()

    def struct(self, expr: str, cls: type) -> None:
        inline, tagged, absent = fields_at(cls, self.version)
        for field in absent:
            self.left_out(f"{expr}.{field.name}", cls, field)
        for field in inline:
            spec = spec_of(field)
            self.value(f"{expr}.{field.name}", spec.type, nullable=self.version in spec.nullable)
        if self.flexible:
            self.tags(expr, tagged)

    def left_out(self, expr: str, cls: type, field: attrs.Attribute[Any]) -> None:
        """Unless the field is ignorable, emit a check that it is not set, because the setting would silently do nothing."""
        if spec_of(field).ignorable:
            return
        with self.src.block(f"if {self.differs(expr, field)}:"):
            self.src(f"absent({cls.__qualname__!r}, {field.name!r}, {self.version})")

    def differs(self, expr: str, field: attrs.Attribute[Any]) -> str:
        default = default_of(field)
        if default is None:
            return f"{expr} is not None"
        if isinstance(default, list):
            return f"{expr} or {expr} is None"
        name = self.src.constant("default", default)
        return f"{expr} is not {name} and {expr} != {name}"  # identity first: most fields have the default object itself

    def tags(self, expr: str, tagged: list[attrs.Attribute[Any]]) -> None:
        if not tagged:
            self.run.append(("", "x"))  # no tagged fields: a zero byte
            return
        self.flush()
        tags, before = self.src.fresh("tags"), self.put
        self.src(f"{tags} = []")
        for field in tagged:
            spec, name = spec_of(field), f"{expr}.{field.name}"
            with self.src.block(f"if {self.differs(name, field)}:"):
                body = self.src.fresh("body")
                self.put = self.src.fresh("put")
                self.src(f"{body} = []; {self.put} = {body}.append")
                self.value(name, spec.type, nullable=self.version in spec.nullable)
                self.flush()
                self.src(f"{body} = join({body}); {tags}.append(uvarint({spec.tag}) + uvarint(len({body})) + {body})")
            self.put = before
        self.src(f"{self.put}(uvarint(len({tags}))); {self.put}(join({tags}))")

    def value(self, expr: str, type: WireType, *, nullable: bool) -> None:
        if isinstance(type, array):
            self.array(expr, type, nullable=nullable)
        elif not isinstance(type, Kind):
            self.nested(expr, type, nullable=nullable)
        elif type is uuid:
            self.run.append((f"{expr}.bytes", "16s"))
        elif type.fixed:
            self.run.append((expr, type.fmt))
        elif type is records:
            self.records(expr, nullable=nullable)
        else:
            self.text(expr, type, nullable=nullable)

    def nested(self, expr: str, type: type, *, nullable: bool) -> None:
        if not nullable:
            return self.struct(expr, type)
        self.flush()
        with self.src.block(f"if {expr} is None:"):
            self.src(f"{self.put}(b'\\xff')")
        with self.src.block("else:"):
            self.src(f"{self.put}(b'\\x01')")
            self.struct(expr, type)
            self.flush()
        return None

    def length(self, n: str, fmt: str) -> None:
        if not self.flexible:
            self.run.append((n, fmt))
            return
        self.flush()
        prefix = "string_prefix" if fmt == "h" else "uvarint"
        self.src(f"{n} += 1; {self.put}(one[{n}] if {n} < 128 else {prefix}({n}))")

    @contextmanager
    def unless_null(self, expr: str, fmt: str, *, nullable: bool) -> Iterator[None]:
        if not nullable:
            yield
            return
        self.flush()
        with self.src.block(f"if {expr} is None:"):
            null = b"\x00" if self.flexible else b"\xff" * struct.calcsize(fmt)
            self.src(f"{self.put}({null!r})")
        with self.src.block("else:"):
            yield
            self.flush()

    def text(self, expr: str, kind: Kind, *, nullable: bool) -> None:
        src, b, n = self.src, self.src.fresh("b"), self.src.fresh("n")
        src(f"{b} = {expr}")
        with self.unless_null(b, kind.fmt, nullable=nullable):
            src(f"{b} = {b}.encode()" if kind is string else f"if {b}.__class__ is not bytes: {b} = flat({b})")
            src(f"{n} = len({b})")
            self.length(n, kind.fmt)
            self.flush()
            src(f"{self.put}({b})")

    def records(self, expr: str, *, nullable: bool) -> None:
        src, b, n = self.src, self.src.fresh("b"), self.src.fresh("n")
        src(f"{b} = {expr}")
        with self.unless_null(b, "i", nullable=nullable):
            src(f"{n} = {b}.nbytes if {b}.__class__ is memoryview else len({b})")
            self.length(n, "i")
            self.flush()
            # Records are a buffer of their own, so that they are not copied. (In a flexible version `n` is the length plus 1.)
            with src.block(f"if {n} > {1 if self.flexible else 0}:"):
                src(f"out.append(join(parts)); parts.clear(); out.append({b})")

    def array(self, expr: str, type: array, *, nullable: bool) -> None:
        src, a, n = self.src, self.src.fresh("a"), self.src.fresh("n")
        src(f"{a} = {expr}")
        with self.unless_null(a, "i", nullable=nullable):
            src(f"{n} = len({a})")
            self.length(n, "i")
            self.flush()
            self.elements(a, type.of)

    def elements(self, a: str, type: WireType) -> None:
        src = self.src
        if isinstance(type, Kind) and type.fixed and type is not uuid:
            n, table = src.fresh("n"), src.constant("packs", PACKERS[type.fmt])
            src(f"{n} = len({a}); {self.put}({table}[{n}](*{a}) if {n} < {TABLE} else pack('>%d{type.fmt}' % {n}, *{a}))")
            return
        item = src.fresh("item")
        with src.block(f"for {item} in {a}:"):
            self.value(item, type, nullable=False)
            self.flush()


# -- decode ----------------------------------------------------------------------


class _Decode:
    """Emits `decode(buf, view, pos, end, room, say=str) -> (object, position after it)`; `view` is a memoryview if there are records."""

    def __init__(self, cls: type, version: int, *, flexible: bool) -> None:
        self.version, self.flexible = version, flexible
        self.plain_bytes = not _holds_records(cls)
        self.words = False  # whether the field that is being emitted is text for people
        self.run: list[tuple[str, str]] = []  # (target, struct letters) of neighbours that one `struct` call will unpack
        self.run_label = ""  # the label of the first field in `run`
        self.src = _Source("def decode(buf, view, pos, end, room, say=str):")
        for fmt in sorted(_numbers_in(cls)):
            self.src(f"known_{fmt} = {{}}")
        self.struct("obj", cls)
        self.flush()
        self.src("return obj, pos")

    def flush(self) -> None:
        if self.run:
            with self.src.about(self.run_label):
                if [fmt for _, fmt in self.run] == ["B"]:
                    self.src(f"{self.run[0][0]} = buf[pos]; pos += 1")
                else:
                    layout = struct.Struct(">" + "".join(fmt for _, fmt in self.run))
                    unpack = self.src.constant("unpack", layout.unpack_from)
                    self.src(f"{', '.join(target for target, _ in self.run)}, = {unpack}(buf, pos); pos += {layout.size}")
            self.run.clear()

    def fixed(self, target: str, fmt: str) -> None:
        if not self.run:
            self.run_label = self.src.label
        self.run.append((target, fmt))

    def struct(self, var: str, cls: type) -> None:
        """A struct is filled field by field; a value, which is frozen, is built at the end from locals."""
        inline, tagged, absent = fields_at(cls, self.version)
        frozen = "__setattr__" in vars(cls)
        self.src(f"{var} = {self.src.constant('cls', cls)}" if frozen else f"{var} = new({self.src.constant('cls', cls)})")
        target = f"{var}_" if frozen else f"{var}."
        for field in absent + tagged:
            self.src(f"{target}{field.name} = {self.default(field)}")
        for field in inline:
            with self.src.about(f"{cls.__qualname__}.{field.name}"):
                spec = spec_of(field)
                self.words = spec.words
                self.value(f"{target}{field.name}", spec.type, nullable=self.version in spec.nullable)
        if self.flexible:
            with self.src.about(f"{cls.__qualname__} tagged fields"):
                self.tags(target, cls, tagged)
        if frozen:
            self.flush()
            self.src(f"{var} = {var}({', '.join(f'{field.name}={target}{field.name}' for field in attrs.fields(cls))})")

    def default(self, field: attrs.Attribute[Any]) -> str:
        default = default_of(field)
        return "[]" if isinstance(default, list) else self.src.constant("default", default)

    def tags(self, target: str, cls: type, tagged: list[attrs.Attribute[Any]]) -> None:
        src, n, tag, last, stop = self.src, *(self.src.fresh(name) for name in ("n", "tag", "last", "stop"))
        self.fixed(n, "B")
        self.flush()
        if not tagged:
            src(f"if {n}: pos = skip_tags(buf, pos, end, {n})")
            return
        with src.block(f"if {n}:"):
            with src.block(f"if {n} > 127:"):
                src(f"{n}, pos = more(buf, pos, {n})")
            src(f"if {n} > {MAX_TAGS} or {n} * 2 > end - pos: bad_tags({n}, end - pos)")
            src(f"{last} = -1")
            with src.block(f"for _ in range({n}):"):
                src(f"{tag}, pos = read_uvarint(buf, pos); {stop}, pos = read_uvarint(buf, pos); {stop} += pos")
                src(f"if {stop} > end: bad_length({stop} - pos, end - pos)")
                src(f"if {tag} <= {last}: bad_order({tag}, {last})")
                src(f"{last} = {tag}")
                for field in tagged:
                    self.tagged(f"{target}{field.name}", cls, field, tag, stop)
                src(f"pos = {stop}")

    def tagged(self, target: str, cls: type, field: attrs.Attribute[Any], tag: str, stop: str) -> None:
        spec = spec_of(field)
        with self.src.about(f"{cls.__qualname__}.{field.name}"), self.src.block(f"if {tag} == {spec.tag}:"):
            self.src(f"if (room := room - {weight(spec.type, self.version)}) < 0: too_heavy()")
            self.words = spec.words
            self.value(target, spec.type, nullable=self.version in spec.nullable)
            self.flush()
            self.src(f"if pos != {stop}: bad_tag_size({tag}, pos - {stop})")

    def value(self, var: str, type: WireType, *, nullable: bool) -> None:
        if isinstance(type, array):
            self.array(var, type, nullable=nullable)
        elif not isinstance(type, Kind):
            self.nested(var, type, nullable=nullable)
        elif type is uuid:
            raw = self.src.fresh("raw")
            self.fixed(raw, "16s")
            self.flush()
            self.src(f"{var} = to_uuid({raw})")
        elif type.fixed:
            self.fixed(var, type.fmt)
        else:
            self.text(var, type, nullable=nullable)

    def nested(self, var: str, type: type, *, nullable: bool) -> None:
        item, mark = self.src.fresh("item"), self.src.fresh("mark")
        if not nullable:
            self.struct(item, type)
            self.flush()
            self.src(f"{var} = {item}")
            return
        self.fixed(mark, "b")
        self.flush()
        with self.src.block(f"if {mark} < 0:"):
            self.src(f"{var} = None")
        with self.src.block("else:"):
            self.struct(item, type)
            self.flush()
            self.src(f"{var} = {item}")

    def length(self, fmt: str) -> str:
        """Emit the reading of a length prefix, and return the name of its variable; null is -1."""
        n = self.src.fresh("n")
        self.fixed(n, "B" if self.flexible else fmt)
        self.flush()
        if self.flexible:
            self.src(f"if {n} > 127: {n}, pos = more(buf, pos, {n})")
            self.src(f"{n} -= 1")
        return n

    @contextmanager
    def unless_null(self, var: str, n: str, *, nullable: bool) -> Iterator[None]:
        if not nullable:
            yield
            return
        with self.src.block(f"if {n} == -1:"):
            self.src(f"{var} = None")
        with self.src.block("else:"):
            yield

    def text(self, var: str, kind: Kind, *, nullable: bool) -> None:
        n, stop = self.length(kind.fmt), self.src.fresh("stop")
        with self.unless_null(var, n, nullable=nullable):
            self.src(f"{stop} = pos + {n}")
            heavy = "" if kind is records else f" or (room := room - {n}{f' * {WIDEST}' if kind is string else ''}) < 0"
            self.src(f"if not pos <= {stop} <= end{heavy}: bad_length({n}, end - pos)")  # `pos <= stop` fails for a negative length
            text = self.piece(kind, f"pos:{stop}")
            self.src(f"{var} = {f'say({text})' if self.words else text}; pos = {stop}")

    def piece(self, kind: Kind, where: str) -> str:
        if kind is records:
            return f"view[{where}]"
        if kind is bytestring:
            return f"buf[{where}]" if self.plain_bytes else f"bytes(buf[{where}])"
        return f"buf[{where}].decode()" if self.plain_bytes else f"UnicodeText(buf[{where}], 'utf-8')"

    def array(self, var: str, type: array, *, nullable: bool) -> None:
        if is_number(type.of):
            return self.numbers(var, type.of, nullable=nullable)
        src, n, least = self.src, self.length("i"), least_size(type.of, self.version, flexible=self.flexible)
        with self.unless_null(var, n, nullable=nullable):
            each = SLOT + weight(type.of, self.version)
            heavy = f"(room := room - {n} * {each}) < 0"
            src(f"if not 0 <= {n} <= {MAX_ELEMENTS} or {n} * {least} > end - pos or {heavy}: bad_count({n}, end - pos, room)")
            item, add = src.fresh("item"), src.fresh("add")
            src(f"{var} = []; {add} = {var}.append")
            with src.block(f"for _ in range({n}):"):
                self.value(item, type.of, nullable=False)
                self.flush()
                src(f"{add}({item})")
        return None

    def numbers(self, var: str, kind: Kind, *, nullable: bool) -> None:
        """In flexible versions, a short array that was read before is found by its bytes and length, without further checks."""
        self.flush()
        src, known = self.src, f"known_{kind.fmt}"
        read = src.constant("read", NUMBERS[kind.fmt, self.flexible])
        call = f"{{}}, pos, room = {read}(buf, pos, end, room, {known}, {nullable})"
        if not self.flexible:
            src(call.format(var))
            return
        n, found, size = src.fresh("n"), src.fresh("found"), kind.size
        src(f"{n} = buf[pos] * {size} - {size - 1}; {found} = {known}.get({self.piece(bytestring, f'pos:pos + {n}')})")
        with src.block(f"if {found} is None:"):
            src(call.format(found))
        with src.block("else:"):
            src(f"pos += {n}")
        src(f"{var} = {found}")


def _flexibility(cls: Any, version: int) -> bool:
    if version not in cls.versions:
        raise UnsupportedVersion(f"{cls.__name__} has versions {cls.versions}, not {version}")
    return version in cls.flexible


@functools.cache
def encoder(cls: Any, version: int) -> Encoder:
    """Raises UnsupportedVersion if `cls` has no such version."""
    emitted = _Encode(cls, version, flexible=_flexibility(cls, version))
    function: Encoder = emitted.src.function(f"{cls.__name__} v{version} encode")
    return function


@functools.cache
def decoder(cls: Any, version: int) -> tuple[Decoder, bool]:
    """(the decode function; whether it needs a memoryview for records). Raises UnsupportedVersion if `cls` has no such version."""
    emitted = _Decode(cls, version, flexible=_flexibility(cls, version))
    function: Decoder = emitted.src.function(f"{cls.__name__} v{version} decode")
    return function, not emitted.plain_bytes
