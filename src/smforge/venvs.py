"""Virtual environments and package folders built once, by hash-pinned pip installs.

The wheel engine (`smforge.wheels`) and the tool environment (`smforge.tools`) share this: a folder
is built under a lock, marked complete last, and one without its mark is built anew.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from smforge.errors import ToolchainError
from smforge.filelock import locked

_MARK = ".complete"

# What would put packages elsewhere or ask for others; settings of index, proxy and cache stay.
_DROPPED = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_CONSTRAINT", "PYTHONHOME", "PYTHONPATH")


def say(line: str) -> None:
    """Print one line about the engine's own work, kept apart from a task's output."""
    print(f"smforge: {line}", file=sys.stderr, flush=True)


def is_plain(path: Path) -> bool:
    """Whether compilers can work below `path`: no blank and nothing outside ASCII in it."""
    return re.fullmatch(r"[!-~]+", str(path)) is not None


def user_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Per-user cache folder of smforge; raises ToolchainError if others could write to it."""
    if sys.platform == "win32":
        base = Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "smforge"
    if sys.platform != "win32" and folder.exists():
        found = folder.stat()
        if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ToolchainError(f"{folder} can be written by others: run chmod 700 {folder}")
    return folder


def place(workspace: Path, kind: str, name: str) -> Path:
    """Folder for `name` of `kind` ("envs", "tools"): in the workspace, else in the user's cache.

    The cache serves where the workspace's path has a blank or non-ASCII characters (inductor's g++
    cannot compile below such a path) and where the workspace cannot be written.
    """
    local = workspace / ".smforge" / kind / name
    if is_plain(local) and (is_complete(local) or _writable(local)):
        return local
    cache = user_cache()
    if not cache.exists():
        cache.mkdir(parents=True, mode=0o700)
    return cache / kind / name


def _writable(path: Path) -> bool:
    existing = next(parent for parent in path.parents if parent.exists())
    return os.access(existing, os.W_OK)


def python_of(folder: Path) -> Path:
    """The interpreter of the virtual environment `folder`."""
    if sys.platform == "win32":
        return folder / "Scripts" / "python.exe"
    return folder / "bin" / "python"


def is_complete(folder: Path) -> bool:
    """Whether `folder` was built to its end and, a virtual environment, still has its Python.

    An environment of another user whose Python this one may not see is none.
    """
    try:
        return _is_complete(folder)
    except PermissionError:
        return False


def _is_complete(folder: Path) -> bool:
    if not (folder / _MARK).is_file():
        return False
    config = folder / "pyvenv.cfg"
    if not config.is_file():
        return True
    home = re.search(r"^home = (.+)$", config.read_text("utf-8"), re.MULTILINE)
    return home is not None and Path(home[1]).is_dir() and python_of(folder).exists()


def build_once(folder: Path, build: Callable[[Path], None]) -> bool:
    """Run `build(folder)` on an empty path unless it is complete; True if this call built it.

    Two processes that start at once build it once. A build that was interrupted leaves no mark, so
    the next start clears it away and builds again.
    """
    if is_complete(folder):
        return False

    def waiting(holder: str) -> None:
        say(f"process {holder} is building {folder.name}; waiting for it")

    with locked(folder.with_name(f"{folder.name}.lock"), waiting):
        if is_complete(folder):
            return False
        if folder.exists():
            say(f"an earlier build of {folder.name} was interrupted; building it again")
            shutil.rmtree(folder)
        build(folder)
        unfinished = folder / f"{_MARK}.new"
        unfinished.touch()
        unfinished.replace(folder / _MARK)
        return True


def create(folder: Path, python: Path) -> None:
    """Make a plain virtual environment with pip from `python` (>= 3.11)."""
    # The file behind the link: after an upgrade to another minor version the link would still
    # resolve, to a Python that does not see these packages.
    command = [str(python.resolve()), "-m", "venv", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environ())
    if done.returncode:
        reason = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["no reason given"]
        raise ToolchainError(f"{python} -m venv failed: {reason[0]}")


def pip_install(python: Path, requirements: Path, log: Path, *options: str) -> None:
    """Install exactly the wheels that `requirements` pins by sha256; raises ToolchainError.

    Nothing is resolved (the file is closed already) and nothing is built: a source archive would
    run code that fetches what no hash covers.
    """
    log.unlink(missing_ok=True)
    command = [str(python), "-m", "pip", "install", "--require-hashes", "--no-deps"]
    command += ["--only-binary=:all:", "--disable-pip-version-check", "--no-input", "--retries=2"]
    command += ["--log", str(log), *options, "-r", str(requirements)]
    # pip's progress is ours to show, not part of a task's output; its errors are told in one line.
    done = subprocess.run(
        command, stdout=sys.stderr, stderr=subprocess.DEVNULL, check=False, env=_environ()
    )
    if done.returncode:
        text = log.read_text("utf-8", errors="replace") if log.is_file() else ""
        raise ToolchainError(f"{_reason(text)}; pip's log: {log}")
    log.unlink(missing_ok=True)


def _environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    return kept | {"PIP_USER": "0"}


def _reason(log: str) -> str:
    if found := re.search(r"DO NOT MATCH THE HASHES.*?\n\S* *(\w[\w.-]*==\S+)", log, re.DOTALL):
        return f"{found[1]} does not match its pinned sha256; nothing of it was installed"
    if "No space left on device" in log:
        return "the disk is full"
    if re.search(r"NewConnectionError|NameResolution|ConnectTimeout|ConnectionReset", log):
        return "no network: pip cannot reach its index (behind a proxy, set https_proxy)"
    if found := re.search(r"No matching distribution found for (\S+)", log):
        return f"the package index has no wheel of {found[1]} for this Python and system"
    return "pip failed"
