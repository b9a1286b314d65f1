"""What activation left in the environment: its status, its reason, and whether its caches are safe.

Facts from os.environ and the file system; standard library alone. activation/README.md is the
contract, read through smforge.activation_contract.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from smforge import activation_contract, tiers
from smforge.activation_contract import Variable
from smforge.errors import ToolchainError

CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
NOT_ACTIVATED = "not-activated"


@dataclass(frozen=True)
class State:
    """`status` is one of the contract's, or not-activated; `remedy` is "" where all is well."""

    status: str
    reason: str
    remedy: str


def state(environ: Mapping[str, str]) -> State:
    """What the activation scripts said."""
    status = environ.get("SMFORGE_STATUS", "")
    if not status:
        reason = "no activation script ran for this process"
        return State(NOT_ACTIVATED, reason, f"run: {tiers.command('env')}")
    known = activation_contract.load().statuses.get(status)
    remedy = known.remedy if known and status not in ("ok", "off") else ""
    return State(status, environ.get("SMFORGE_REASON", "").strip(), remedy)


def require_compiler(environ: Mapping[str, str]) -> None:
    """Stop where the user asked for a working compiler (SMFORGE_MSVC=require) and has none.

    Raises:
        ToolchainError: the status is not "ok".
    """
    if environ.get("SMFORGE_MSVC", "").lower() != "require":
        return
    found = state(environ)
    if found.status != "ok":
        raise ToolchainError(
            f"SMFORGE_MSVC=require, but activation ended with {found.status}: {found.reason}"
            + (f" ({found.remedy})" if found.remedy else "")
        )


def platform() -> str:
    """The contract's name of this platform: windows or linux."""
    return "windows" if sys.platform == "win32" else "linux"


def variables(where: str) -> list[Variable]:
    """What activation may set on this platform, in the contract's order."""
    rows = activation_contract.load().variables
    return [row for row in rows if row.is_output and row.where in ("both", where)]


def cache_problems(environ: Mapping[str, str]) -> list[str]:
    """Why the compile caches are not this user's alone; empty when they are, or are not there.

    On Linux owner and mode of the folders and of the one above them. On Windows nothing can be
    said without reading access lists, which this function does not do.
    """
    if sys.platform == "win32":
        return []
    folders = [Path(environ[name]) for name in CACHES if environ.get(name)]
    above = {folder.parent for folder in folders if folder.parent.name == "smforge"}
    problems = []
    for folder in sorted({*folders, *above}):
        try:
            found = folder.stat()
        except OSError:
            continue
        if found.st_uid != os.geteuid():
            problems.append(f"{folder} belongs to user {found.st_uid}; expected you")
        elif stat.S_IMODE(found.st_mode) & 0o022 and folder in above:
            problems.append(f"{folder} can be written by others; run: chmod go-w {folder}")
    return problems
