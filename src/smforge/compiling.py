"""torch.compile with a way back: what is known beforehand, and one line out of a long failure."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path

import torch

from smforge.errors import ToolchainError

# Lines of an exception's text that say nothing by themselves.
EMPTY = re.compile(r"backend='.*' raised:|C\+\+ compile error|Command:|Output:|\s*")
LENGTH = 200


def missing_compiler(environ: Mapping[str, str], device: str) -> str:
    """Say why inductor cannot generate C++ on this machine, or ""; a GPU needs no C++ for it."""
    if device != "cpu":
        return ""
    wanted = environ.get("CXX") or ("cl" if os.name == "nt" else "g++")
    names = (wanted,) if environ.get("CXX") or os.name == "nt" else ("g++", "clang++")
    if any(shutil.which(name.split()[0], path=environ.get("PATH")) for name in names):
        return ""
    return f"no C++ compiler: {' and '.join(names)} not found on PATH"


def blank_warning(environ: Mapping[str, str]) -> str:
    """Warn of a blank in a path that inductor hands to the C++ compiler unquoted, or ""."""
    cache = environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir()
    for name, path in (("environment", sys.prefix), ("torch", torch.__file__), ("cache", cache)):
        if " " in str(path):
            return f"the path of the {name} has a blank, which breaks inductor's compiler: {path}"
    return ""


def reason(error: BaseException) -> str:
    """The one line of a compile failure that tells most: a compiler's error, else the first."""
    lines: list[str] = []
    cause: BaseException | None = error
    while cause:  # the innermost first; a compiler's own words may stand in any of them
        lines[:0] = [line.strip() for line in str(cause).splitlines()]
        cause = getattr(cause, "inner_exception", None) or cause.__cause__
    telling = [line for line in lines if re.search(r"\berror: ", line)]
    first = [line for line in lines if not EMPTY.fullmatch(line)]
    line = (telling or first or [type(error).__name__])[0]
    return line if len(line) <= LENGTH else f"{line[:LENGTH]}..."


def note_failure(error: BaseException, log: Path, strict: bool, environ: Mapping[str, str]) -> str:
    """Write the full log and return the failure in one line.

    Raises:
        ToolchainError: under `strict`, instead of returning.
    """
    trace = "".join(traceback.format_exception(error))
    log.write_text(f"torch {torch.__version__}, Python {sys.version}\n\n{trace}", "utf-8")
    line = f"{reason(error)} (full log: {log})"
    # What activation had to report about the host compiler is the likeliest cause.
    if environ.get("SMFORGE_STATUS", "ok") not in ("", "ok", "off"):
        line += f"; activation says: {environ.get('SMFORGE_REASON') or environ['SMFORGE_STATUS']}"
    if strict:
        raise ToolchainError(f"torch.compile failed: {line}")
    return line
