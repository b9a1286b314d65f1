"""Find a Python that can make the virtual environment of a stack."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from smforge.errors import ToolchainError

# Prints its own version if it can make virtual environments (Debian keeps ensurepip apart).
_PROBE = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2]); print(sys.executable)"


def find(lowest: str, highest: str) -> tuple[Path, str]:
    """A Python of a version from "3.11" to "3.14" and that version; raises ToolchainError.

    This very interpreter if it fits, else the newest that fits of those on PATH (and, on Windows,
    of those the `py` launcher knows).
    """
    own = "{}.{}".format(*sys.version_info[:2])
    if _fits(own, lowest, highest):
        return Path(sys.executable), own
    for command in _candidates(lowest, highest):
        found = _probe(command)
        if found and _fits(found[1], lowest, highest):
            return found
    raise ToolchainError(
        f"the pinned wheels are for Python {lowest} to {highest} and this is {own}: "
        f"install one of them (with its venv module) and start again"
    )


def _candidates(lowest: str, highest: str) -> list[list[str]]:
    first, last = int(lowest.split(".")[1]), int(highest.split(".")[1])
    minors = range(last, first - 1, -1)
    if sys.platform == "win32":
        return [["py", f"-3.{minor}"] for minor in minors] + [["python"]]
    return [[f"python3.{minor}"] for minor in minors] + [["python3"]]


def _probe(command: list[str]) -> tuple[Path, str] | None:
    program = shutil.which(command[0])
    if program is None:
        return None
    done = subprocess.run(
        [program, *command[1:], "-c", _PROBE], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    return (Path(lines[1]), lines[0]) if done.returncode == 0 and len(lines) == 2 else None


def _fits(version: str, lowest: str, highest: str) -> bool:
    def key(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split("."))

    return key(lowest) <= key(version) <= key(highest)
