"""A Windows CPython 3.11 for Wine, put together from parts that pip brings."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .wine import PROGRAMS, Result, Wine, only_one, windows_path

REPO = Path(__file__).resolve().parents[2]
REQUIREMENT = REPO / "envs" / "tools" / "windows-python.txt"
LAYOUT = "1"  # raise it when the layout of what is made here changes
# Wine 8 aborts inside _wmi (platform.machine() would call it); it has the api-ms-* files itself.
LEFT_OUT = ("api-ms-", "_wmi")
LIBRARIES = ("libcrypto", "libffi", "libssl", "sqlite3", "tcl", "tk", "zlib")
NOT_COPIED = ("__pycache__", "lib-dynload", "site-packages", "test", "config-3*", "idlelib")


@dataclass(frozen=True)
class WindowsPython:
    """python.exe, python311.dll, DLLs, Lib and Include in a folder of this machine."""

    wine: Wine
    folder: Path

    @property
    def executable(self) -> str:
        return windows_path(self.folder / "python.exe")

    def run(
        self,
        *arguments: str,
        path: Sequence[Path] = (),
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 300,
    ) -> Result:
        """Run python.exe; `path` are folders of this machine for its PYTHONPATH."""
        variables = {
            "PYTHONUTF8": "1",
            "PYTHONPATH": ";".join(map(windows_path, path)),
            "PYTHONDONTWRITEBYTECODE": "1",
            **(environ or {}),
        }
        return self.wine.run(
            [self.executable, *arguments],
            environ=variables,
            cwd=cwd,
            timeout=timeout,
            encoding="utf-8",
        )


def host_python() -> str | None:
    """A Python 3.11 of this machine, whose Lib and headers are the same files as on Windows."""
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    return shutil.which("python3.11")


def prepare(wine: Wine, python: str) -> WindowsPython:
    """The Windows Python, made on the first call (a download of 66 MB) and kept."""
    folder = wine.folder.with_name(f"windows-python-3.11-{LAYOUT}")
    with only_one(folder):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "DLLs").mkdir(parents=True)
            unpack_libraries(fetch(python, REQUIREMENT, folder / "download"), folder)
            copy_lib_and_headers(python, folder)
            shutil.copy(wine.program("python", "-municode"), folder / "python.exe")
            (folder / "complete").touch()
    return WindowsPython(wine, folder)


def fetch(python: str, requirement: Path, folder: Path) -> Path:
    """The one wheel of a pinned requirement, for a 64-bit Windows; pip checks its hash."""
    target = ["--platform", "win_amd64", "--python-version", "3.11", "--only-binary", ":all:"]
    command = [python, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", *target]
    subprocess.run([*command, "-r", requirement, "-d", folder], check=True)
    return next(folder.glob("*.whl"))


def triton(python: str, cache: Path) -> Path:
    """The unpacked triton-windows 3.7 (a download of 50 MB the first time), as in site-packages."""
    requirement = REPO / "envs" / "tools" / "windows-triton-3.7.txt"
    folder = (
        cache / f"{requirement.stem}-{hashlib.sha256(requirement.read_bytes()).hexdigest()[:8]}"
    )
    with only_one(folder):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            with zipfile.ZipFile(fetch(python, requirement, folder / "download")) as archive:
                archive.extractall(folder / "site-packages")
            (folder / "complete").touch()
    return folder / "site-packages"


def unpack_libraries(wheel: Path, folder: Path) -> None:
    """deploy_libs/* of the wheel: extension modules and what they need in DLLs, the rest on top."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.namelist():
            name = Path(entry).name
            if not entry.startswith("deploy_libs/") or name.startswith(LEFT_OUT):
                continue
            inner = name.endswith(".pyd") or name.startswith(LIBRARIES)
            (folder / ("DLLs" if inner else "") / name).write_bytes(archive.read(entry))


def copy_lib_and_headers(python: str, folder: Path) -> None:
    """Lib and Include from this machine's Python 3.11, with a pyconfig.h for Windows."""
    code = "import sysconfig as s; print(s.get_path('stdlib'), s.get_path('include'), sep='\\n')"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    library, headers = done.stdout.splitlines()
    ignored = shutil.ignore_patterns(*NOT_COPIED)
    shutil.copytree(library, folder / "Lib", ignore=ignored, symlinks=False)
    (folder / "Lib" / "site-packages").mkdir()
    shutil.copytree(headers, folder / "Include")
    shutil.copy(PROGRAMS / "pyconfig.h", folder / "Include" / "pyconfig.h")
