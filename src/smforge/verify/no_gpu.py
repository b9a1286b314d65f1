"""`verify --no-gpu`: fetch the compilers, compile the matrix, check numerics in the interpreter."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from smforge import tables, tiers, tools, venvs
from smforge.errors import SmforgeError
from smforge.kernels import catalogue
from smforge.verify import cells, matrix, nvcc_build, under_wine
from smforge.verify.cells import Cell, Outcome
from smforge.verify.interpreter_worker import DTYPES

INTERPRETER = "interpreter"
_INTERPRETED_BY = "triton-3.7"


def run(
    only: str, tier: str, say: Callable[[str], None], progress: matrix.Progress,
    wine: bool = False, cache: Path | None = None,
) -> list[Outcome]:  # fmt: skip
    """Every outcome: cells of the matrix, the nvcc build, and the interpreter's numerics.

    With `wine`, also those of the Windows binaries under Wine. `cache` keeps results by content;
    left out, it is .smforge/verify/cells of the workspace.
    """
    compiled = cells.all_cells(only, tier)
    interpreted = interpreter_cells(only, tier)
    built = nvcc_build.cells(only, tier)
    names = {cell.tool for cell in [*compiled, *built]} | _needed(interpreted)
    found, missing = fetch(names | (under_wine.wheels(compiled) if wine else set()), say)
    cache = cache or tables.workspace() / ".smforge" / "verify" / "cells"
    if _INTERPRETED_BY in found:
        found[INTERPRETER] = found[_INTERPRETED_BY]
    with ThreadPoolExecutor(1) as beside:  # nvcc's one build, while the others compile
        build = beside.submit(_nvcc, built, found, missing, cache)
        outcomes = matrix.run([*compiled, *interpreted], found, missing, cache, progress)
        if built and not build.done():
            say("waiting for nvcc's build")
        outcomes += build.result()
    if wine:
        outcomes += under_wine.run(outcomes, found, missing, cache, say, progress)
    return outcomes


def _needed(interpreted: list[Cell]) -> set[str]:
    return {_INTERPRETED_BY} if interpreted else set()


def interpreter_cells(only: str, tier: str) -> list[Cell]:
    """The Triton cases whose numbers the interpreter gets right, on the cpu tier."""
    if tier not in ("", "cpu"):
        return []
    cases = [case for case in catalogue.TRITON if case.dtype in DTYPES and only in case.name]
    return [Cell("cpu", case.name, INTERPRETER, True, "", ({"case": case.name},)) for case in cases]


def fetch(
    names: Iterable[str], say: Callable[[str], None]
) -> tuple[dict[str, Path], dict[str, str]]:
    """Folders of the toolchains, and for those that cannot be had the reason."""
    found, missing = {}, {}
    wanted = sorted(names)
    # How much there is to load is said before any of it is loaded.
    todo = {name: size for name in wanted if (size := download_size(name))}
    if todo:
        parts = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in todo.items())
        say(f"to fetch once: {parts}")
    for name in wanted:
        try:
            found[name] = tools.tool_packages(name)
        except SmforgeError as error:
            missing[name] = str(error)
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("numpy") is None:
        missing[INTERPRETER] = "the interpreter needs torch and numpy in this environment"
        found.pop(INTERPRETER, None)
    return found, missing


def download_size(name: str) -> int:
    """Bytes that fetching a toolchain would load; 0 when it is there or nothing is known."""
    file = tables.workspace() / "envs" / "tools" / f"{name}.txt"
    if not file.is_file() or venvs.is_complete(tools.packages_folder(name)):
        return 0
    subdir = tiers.SUBDIRS[tiers.current_os()]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if name.startswith("windows-"):
        subdir, version = tiers.SUBDIRS["win"], tools.foreign_python(file)
    line = re.compile(rf"^# download {subdir} {re.escape(version)}: (\d+)$", re.M)
    size = line.search(file.read_text("utf-8"))
    return int(size[1]) if size else 0


def _nvcc(
    built: list[Cell], found: Mapping[str, Path], missing: Mapping[str, str], cache: Path
) -> list[Outcome]:
    if not built:
        return []
    if nvcc_build.TOOL not in found:
        return [Outcome(cell, "not-run", missing[nvcc_build.TOOL]) for cell in built]
    return nvcc_build.run(built, found[nvcc_build.TOOL], cache)
