"""A Windows CPython 3.11 for Wine, put together from parts that pip brings."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from smforge import tools, venvs
from smforge.wine.prefix import Wine, cache_folder, windows_path

PARTS = "windows-python"  # envs/tools/windows-python.txt: a wheel that carries python.org's build
LAYOUT = "1"  # raise it when the layout of what is made here changes
SOURCE = Path(__file__).with_name("python.c")
# Wine 8 aborts inside _wmi (platform.machine() would call it); it has the api-ms-* files itself.
LEFT_OUT = ("api-ms-", "_wmi")
LIBRARIES = ("libcrypto", "libffi", "libssl", "sqlite3", "tcl", "tk", "zlib")
NOT_COPIED = ("__pycache__", "lib-dynload", "site-packages", "test", "config-3*", "idlelib")


def host_python() -> str:
    """A Python 3.11 of this machine, whose Lib is the same files as on Windows; "" if none."""
    if sys.version.startswith("3.11."):
        return sys.executable
    return shutil.which("python3.11") or ""


def missing() -> str:
    """What this machine lacks for a Windows Python; "" if nothing."""
    return "" if host_python() else "no Python 3.11 here (package: python3.11)"


@dataclass(frozen=True)
class WindowsPython:
    """python.exe, python311.dll, DLLs and Lib in a folder of this machine."""

    wine: Wine
    folder: Path

    @classmethod
    def prepare(cls, wine: Wine) -> Self:
        """The Windows Python, made on the first call (its parts are a download) and kept."""
        parts = tools.tool_packages(PARTS)
        key = hashlib.sha256(f"{parts.name} {LAYOUT}".encode()).hexdigest()[:8]
        made = cls(wine, cache_folder() / f"python-3.11-{key}")

        def build(folder: Path) -> None:
            (folder / "DLLs").mkdir(parents=True)
            copy_libraries((parts / "deploy_libs").iterdir(), folder)
            copy_lib(folder / "Lib")
            shutil.copy(wine.build(SOURCE, ["-municode"]), folder / "python.exe")

        venvs.build_once(made.folder, build)
        return made

    @property
    def executable(self) -> str:
        """python.exe as Windows knows it."""
        return windows_path(self.folder / "python.exe")

    def environ(self, *path: Path) -> dict[str, str]:
        """Variables for python.exe; `path` are folders of this machine for its PYTHONPATH."""
        return self.wine.environ | {
            "PYTHONUTF8": "1",
            "PYTHONPATH": ";".join(map(windows_path, path)),
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def copy_libraries(files: Iterable[Path], folder: Path) -> None:
    """Extension modules and what they need into DLLs, the rest beside python.exe."""
    for file in files:
        if not file.name.startswith(LEFT_OUT):
            inner = file.suffix == ".pyd" or file.name.startswith(LIBRARIES)
            shutil.copy(file, folder / ("DLLs" if inner else "") / file.name)


def copy_lib(target: Path) -> None:
    """The standard library of this machine's Python 3.11."""
    code = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    done = subprocess.run([host_python(), "-c", code], capture_output=True, text=True, check=True)
    ignored = shutil.ignore_patterns(*NOT_COPIED)
    shutil.copytree(done.stdout.strip(), target, ignore=ignored, symlinks=False)
    (target / "site-packages").mkdir()
