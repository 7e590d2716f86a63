"""Packaging. Rule: `pip install` works without a compiler, and says once that the compiled core is missing.

`PYKAFKA4_BUILD_EXTENSION=yes` makes a failing compiler an error (CI, wheels), `no` skips the compiled core,
anything else tries and goes on without it. Only `yes` tries on Windows, where nobody has tested it: the plain-Python core runs there.
The C code asks for what a system or processor has (clocks, instructions for CRC-32C) and does without; see `_plat.h`.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

COMPILED = Path("pykafka4/wire/records/compiled")
GIL = Path("pykafka4/gil/_gil.pyx")
PUMP = Path("pykafka4/net/pump/_pump.pyx")
READING = Path("pykafka4/agent/inputs/compiled/_reading.pyx")
WANTED = os.environ.get("PYKAFKA4_BUILD_EXTENSION", "auto")


said: list[Exception] = []


def not_built(error: Exception) -> None:
    """Say so, once for all modules."""
    said.append(error)
    if len(said) > 1:
        return
    print(
        f"pykafka4: compiled core not built ({error}); the plain-Python core is used, 15 to 40 times the CPU per record. pip keeps this "
        "wheel: once the cause is mended, install with --force-reinstall --no-cache-dir",
        file=sys.stderr,
    )


class OptionalBuild(build_ext):
    """Build the compiled core where a compiler is, else leave the plain-Python one in charge."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except (CCompilerError, ExecError, PlatformError, OSError) as error:
            if WANTED == "yes":
                raise
            not_built(error)


def extensions() -> list[Extension]:
    if WANTED == "no" or (sys.platform == "win32" and WANTED != "yes"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError as error:  # --no-build-isolation where Cython is not installed
        if WANTED == "yes":
            raise
        not_built(error)
        return []
    options = ["/O2"] if sys.platform == "win32" else ["-O3"]
    modules = [GIL, COMPILED / "_hot.pyx"]
    if sys.platform == "linux":
        modules.append(PUMP)  # epoll and eventfd; elsewhere the portable transport moves the bytes
        modules.append(READING)  # recvmmsg
    return list(cythonize([extension(source, options) for source in modules], language_level=3))


def extension(source: Path, options: list[str]) -> Extension:
    parts = [str(part) for pattern in ("_*.pxi", "_*.h", "*.pxd") for part in sorted(source.parent.glob(pattern))]
    name = ".".join(source.with_suffix("").parts)
    return Extension(name, [str(source)], extra_compile_args=options, depends=[*parts, str(GIL.with_suffix(".pxd"))])


setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuild})
