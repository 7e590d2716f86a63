"""Builds the package. Rule: `pip install` works without a compiler, and says once that the compiled core is missing.

`PYKAFKA4_BUILD_EXTENSION=yes` makes a failed build an error (CI, wheels), `no` skips the compiled core, and any other value tries the build
and goes on without the core if it fails. On Windows only `yes` tries, because nobody has tested the compiled core there. The C code finds
out which clocks and instructions (for CRC-32C) a system and its processor have, and does without the missing ones; see `_plat.h`.
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
    """Report that the compiled core is not built, once for all modules."""
    said.append(error)
    if len(said) > 1:
        return
    print(
        f"pykafka4: compiled core not built ({error}); the plain-Python core is used, at 15 to 40 times the CPU per record. pip keeps this "
        "wheel: once the cause is fixed, install with --force-reinstall --no-cache-dir",
        file=sys.stderr,
    )


class OptionalBuild(build_ext):
    """Build the compiled core if there is a compiler; otherwise the plain-Python core is used."""

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
    except ImportError as error:  # with --no-build-isolation, if Cython is not installed
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
