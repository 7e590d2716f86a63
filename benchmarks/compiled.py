"""Builds the C programs of the benchmarks, each once for each version of its source."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

__all__ = ["compiled"]

BUILD = Path(__file__).parent.parent / "build"


def compiled(source: Path) -> Path:
    """Compile a C file if necessary; return the program's path. SystemExit without a compiler."""
    path = BUILD / f"{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if not path.exists():
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise SystemExit(f"gcc is missing: {source.name} has to be compiled; apt-get install -y gcc")
        BUILD.mkdir(exist_ok=True)
        subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(path), str(source)], check=True)
    return path
