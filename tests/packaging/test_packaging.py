"""What users install: complete sources, a wheel that works without a compiler, and one warning that says so."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pykafka4.wire.records import hot

pytest.importorskip("Cython", reason="needs Cython; pip install -e '.[test,dev]'")
pytest.importorskip("setuptools", minversion="77", reason="needs setuptools 77, as pyproject.toml does; pip install -e '.[test,dev]'")

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pykafka4", "pyspark_pykafka4.py", "setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")
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


# Spark finds the data source without a call of `register`.
SPARK_READ = """
from pyspark.sql import SparkSession
from pykafka4.testing import ModelServer
with ModelServer() as server:
    server.create_topic("t", partitions=1)
    server.produce("t", b"a", b"b")
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": "512m", "spark.driver.host": "127.0.0.1"}
    spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    reader = spark.read.format("pykafka4").option("kafka.bootstrap.servers", server.bootstrap_servers).option("subscribe", "t")
    print("rows", sorted(bytes(row.value) for row in reader.load().collect()))
    spark.stop()
"""

# What an installed package is for, through the model cluster that it brings along.
ROUND_TRIP = """
import sys
from pykafka4 import Consumer, Producer
from pykafka4.testing import ModelServer
from pykafka4.wire.records import hot
with ModelServer() as server:
    server.create_topic("t", partitions=1)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(bootstrap_servers=server.bootstrap_servers, compression_type=codec) as producer:
            producer.send("t", codec * 100)
    with Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        for codec, record in zip(("none", "gzip", "snappy", "lz4", "zstd"), consumer):  # in this order: it does not wait for a sixth
            assert record.value == codec.encode() * 100
print(hot.IMPLEMENTATION, hot.__file__, "google_crc32c" in sys.modules)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The sources as a clean checkout has them."""
    return sources(tmp_path)


def sources(parent: Path) -> Path:
    folder = parent / "tree"
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
    assert "_hot.pyx" in CORE


def test_sdist_holds_what_a_build_needs_and_no_tests(tree: Path) -> None:
    (tree / "tests").mkdir()
    for other in ("tests/test_client.py", f"{COMPILED}/_hot.c"):
        (tree / other).touch()
    done = build(tree, "sdist", PYKAFKA4_BUILD_EXTENSION="no")
    assert done.returncode == 0, done.stderr
    (archive,) = (tree / "dist").glob("*.tar.gz")
    wanted = {f"{COMPILED}/{name}" for name in CORE} | {
        "pykafka4/py.typed",
        "pyspark_pykafka4.py",
        "setup.py",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    }
    assert wanted <= names(archive)
    assert not {name for name in names(archive) if name.startswith("tests/") or name.endswith(".c")}


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


# ---------------------------------------------------------------- the wheel with the compiled core


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, with the compiled core; not optimized, which would take a minute."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or hot.IMPLEMENTATION != "compiled":
        pytest.skip("needs a C compiler and the compiled core")
    folder = tmp_path_factory.mktemp("release")
    quick = folder / "cc"
    quick.write_text(f'#!/bin/sh\nexec {compiler} "$@" -O0 -g0\n')
    quick.chmod(0o755)
    top = sources(folder)
    done = build(top, "sdist", PYKAFKA4_BUILD_EXTENSION="no")
    assert done.returncode == 0, done.stderr
    (archive,) = (top / "dist").glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", archive], cwd=folder, check=True)  # `shutil` has its argument `filter` from Python 3.11.4 on only
    unpacked = folder / archive.name.removesuffix(".tar.gz")
    done = build(unpacked, "wheel", PYKAFKA4_BUILD_EXTENSION="yes", CC=str(quick))
    assert done.returncode == 0, done.stderr
    (built,) = (unpacked / "dist").glob("*.whl")
    return built


def metadata(archive: Path) -> tuple[list[Requirement], list[str]]:
    """(all requirements, classifiers)."""
    with zipfile.ZipFile(archive) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        found = Parser().parsestr(file.read(name).decode())
    return [Requirement(text) for text in found.get_all("Requires-Dist", [])], found.get_all("Classifier", [])


def needed(requirements: list[Requirement], extra: str = "") -> set[str]:
    return {r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": extra})}


def link_packages(wanted: set[str], folder: Path) -> None:
    """Put the installed packages of these names, and what they require, into `folder`, and nothing else."""
    for name in wanted:
        installed = importlib.metadata.distribution(name)
        listed = {Path(str(file)).parts[0] for file in installed.files or ()} - {"..", "__pycache__"}
        # An old pip (Debian 12) installs a source distribution without a list of its files.
        for top in listed | set((installed.read_text("top_level.txt") or "").split()):
            source = Path(str(installed.locate_file(top)))
            if source.exists() and not (folder / top).exists():
                (folder / top).symlink_to(source)
        link_packages(needed([Requirement(text) for text in installed.requires or ()]), folder)


def test_a_wheel_holds_the_package_its_types_and_its_license_and_no_tests(wheel: Path) -> None:
    inside = names(wheel)
    tops = {name.partition("/")[0] for name in inside}
    assert tops == {"pykafka4", "pyspark_pykafka4.py", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}
    assert {f"{COMPILED}/{name}" for name in CORE} | {"pykafka4/py.typed", "pykafka4/options/typed.py"} <= inside
    assert any(name.startswith(f"{COMPILED}/_hot.") and name.endswith((".so", ".pyd")) for name in inside)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in inside)
    assert any(name.endswith(".dist-info/entry_points.txt") for name in inside)
    assert not {name for name in inside if name.endswith(".c") or "/test_" in name}


def test_a_wheel_requires_crcmod_and_offers_google_crc32c(wheel: Path) -> None:
    requirements, classifiers = metadata(wheel)
    assert needed(requirements) == {"attrs", "python-snappy", "lz4", "zstandard", "crcmod", "javaproperties"}
    assert needed(requirements, "crc32c") - needed(requirements) == {"google-crc32c"}
    assert "Typing :: Typed" in classifiers


def fresh_environment(wheel: Path, folder: Path, extra: str = "") -> tuple[Path, Path]:
    """(Python, site-packages) of a virtual environment with the wheel and what it requires."""
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, timeout=120)
    (site,) = (folder / "venv" / "lib").glob("*/site-packages")
    link_packages(needed(metadata(wheel)[0], extra), site)
    return python, site


@pytest.mark.spark
def test_spark_finds_the_data_source_of_a_wheel_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    python, _ = fresh_environment(wheel, tmp_path, "spark")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)}
    command = [str(python), "-c", SPARK_READ]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "rows [b'a', b'b']" in done.stdout


@pytest.mark.parametrize("implementation", ["compiled", "python"])
def test_a_wheel_in_a_fresh_environment_needs_only_what_it_requires(wheel: Path, tmp_path: Path, implementation: str) -> None:
    python, site = fresh_environment(wheel, tmp_path)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")} | {"PYKAFKA4_IMPL": implementation}
    command = [str(python), "-c", ROUND_TRIP]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    used, place, google = done.stdout.split()
    assert (used, google) == (implementation, "False")
    assert Path(place).is_relative_to(site)
