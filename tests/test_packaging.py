"""What users install: complete sources, a wheel that works without a compiler, and one warning that says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("Cython", reason="needs Cython; pip install -e '.[test,dev]'")
pytest.importorskip("setuptools", minversion="77", reason="needs setuptools 77, as pyproject.toml does; pip install -e '.[test,dev]'")

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("pykafka4", "setup.py", "pyproject.toml", "README.md", "LICENSE")
BUILT = shutil.ignore_patterns("*.so", "_hot.c", "__pycache__")
COMPILED = "pykafka4/wire/records/compiled"
CORE = sorted(path.name for kind in ("pyx", "pxi", "h", "pyi") for path in (ROOT / COMPILED).glob(f"*.{kind}"))
USE = """
import logging
logging.basicConfig(format="%(name)s %(levelname)s %(message)s")
from pykafka4.wire.records import hot, reference
import pykafka4
print(hot.IMPLEMENTATION, hot.murmur2(b"foobar"), pykafka4.__file__)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The sources as a clean checkout has them."""
    folder = tmp_path / "tree"
    folder.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=BUILT)
        else:
            shutil.copy(source, folder / name)
    return folder


def build(tree: Path, what: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the build backend as pip does, without the isolation that would download what is installed here already."""
    command = [sys.executable, "-c", f"from setuptools import build_meta; print(build_meta.build_{what}('dist'))"]
    return subprocess.run(command, cwd=tree, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240, check=False)


def names(archive: Path) -> set[str]:
    """Paths inside; an sdist's without its top folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return set(file.namelist())
    with tarfile.open(archive) as file:
        return {name.partition("/")[2] for name in file.getnames()}


def python_run(code: str, path: Path) -> subprocess.CompletedProcess[str]:
    """In a fresh interpreter that finds pykafka4 in `path` before anywhere else."""
    environment = {key: value for key, value in os.environ.items() if key != "PYKAFKA4_IMPL"} | {"PYTHONPATH": str(path)}
    return subprocess.run([sys.executable, "-c", code], cwd=path, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_core_has_sources_to_ship() -> None:
    assert {"_hot.pyx", "_hot.pyi"} <= set(CORE)


def test_sdist_holds_everything_a_build_needs(tree: Path) -> None:
    done = build(tree, "sdist", PYKAFKA4_BUILD_EXTENSION="no")
    assert done.returncode == 0, done.stderr
    (archive,) = (tree / "dist").glob("*.tar.gz")
    wanted = {f"{COMPILED}/{name}" for name in CORE} | {"pykafka4/py.typed", "setup.py", "pyproject.toml", "README.md", "LICENSE"}
    assert wanted <= names(archive)


def test_a_failing_compiler_leaves_a_wheel_that_works_and_warns_once(tree: Path, tmp_path: Path) -> None:
    done = build(tree, "wheel", CC="false", PYKAFKA4_BUILD_EXTENSION="auto")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pykafka4: compiled core not built") == 1
    (archive,) = (tree / "dist").glob("*.whl")
    assert {f"{COMPILED}/{name}" for name in CORE} | {"pykafka4/py.typed"} <= names(archive)
    assert not {name for name in names(archive) if name.endswith((".so", ".c"))}
    check_plain(archive, tmp_path / "site")


def test_no_extension_wanted_is_no_error(tree: Path, tmp_path: Path) -> None:
    done = build(tree, "wheel", CC="false", PYKAFKA4_BUILD_EXTENSION="no")
    assert done.returncode == 0, done.stderr
    (archive,) = (tree / "dist").glob("*.whl")
    check_plain(archive, tmp_path / "site")


def check_plain(archive: Path, site: Path) -> None:
    """Installed by pip, the package runs on its plain-Python core and says so in one log line."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site), str(archive)]
    subprocess.run(install, check=True, timeout=120)
    used = python_run(USE, site)
    assert used.returncode == 0, used.stderr
    implementation, murmur2, place = used.stdout.split()
    assert (implementation, murmur2) == ("python", "-790332482")
    assert Path(place).is_relative_to(site)
    warnings = [line for line in used.stderr.splitlines() if "WARNING" in line]
    assert len(warnings) == 1
    assert "compiled" in warnings[0]


def test_a_failing_compiler_is_an_error_where_the_core_is_wanted(tree: Path) -> None:
    done = build(tree, "wheel", CC="false", PYKAFKA4_BUILD_EXTENSION="yes")
    assert done.returncode != 0
    assert not list((tree / "dist").glob("*.whl"))


@pytest.mark.parametrize(("wanted", "code"), [("auto", 0), ("yes", 1)])
def test_without_cython_the_core_is_left_out_unless_it_is_wanted(tree: Path, tmp_path: Path, wanted: str, code: int) -> None:
    without = tmp_path / "without"
    without.mkdir()
    (without / "Cython.py").write_text("raise ImportError('not installed')\n")
    done = build(tree, "wheel", PYTHONPATH=str(without), PYKAFKA4_BUILD_EXTENSION=wanted)
    assert bool(done.returncode) == bool(code), done.stderr
    assert done.stderr.count("pykafka4: compiled core not built (not installed)") == (0 if code else 1)
    assert len(list((tree / "dist").glob("*.whl"))) == (0 if code else 1)
    if not code:
        assert "--no-cache-dir" in done.stderr
