"""`verify --wine`: the Windows binaries of each tier's Triton, run under Wine.

The PTX that Linux's Triton made goes through the Windows wheel's ptxas.exe, and triton-windows
itself compiles the same kernels in a Windows CPython.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from smforge import tiers
from smforge.errors import SmforgeError
from smforge.verify import matrix
from smforge.verify.cells import Cell, Outcome
from smforge.verify.ptxas import ptx_version, release
from smforge.verify.worker import Job, Worker
from smforge.wine import prefix, python
from smforge.wine.prefix import Wine, windows_path
from smforge.wine.python import WindowsPython

# The PTX ISA that the one ptxas.exe of each Windows wheel takes, times ten; Linux's wheel has a
# second, newer assembler for sm_100 and up.
HIGHEST_PTX = {"triton-3.2": 84, "triton-3.7": 87}
PTXAS, TRITON = "wine-ptxas-", "wine-triton-"
_MODULES = {PTXAS: "smforge.verify.ptxas_worker", TRITON: "smforge.verify.triton_worker"}
# A file as standard error aborts a Windows Python under Wine: what it says goes through a pipe.
_PIPED = ("sh", "-c", '{ "$@" 2>&1 >&3 3>&- | cat >&2; } 3>&1', "sh")


def is_wine(tool: str) -> bool:
    """Whether a cell's tool is a Windows binary."""
    return tool.startswith("wine-")


def missing() -> str:
    """What this machine lacks, with the packages that bring it; "" if nothing."""
    return prefix.missing() or python.missing()


def wheels(compiled: Iterable[Cell]) -> set[str]:
    """What Triton cells need of envs/tools for their Windows binaries; nothing without Wine."""
    found = {f"windows-{cell.tool}" for cell in compiled if cell.tool in HIGHEST_PTX}
    return found | {python.PARTS} if found and not missing() else set()


def run(
    linux: list[Outcome], tools: Mapping[str, Path], absent: Mapping[str, str], cache: Path,
    say: Callable[[str], None], progress: matrix.Progress,
) -> list[Outcome]:  # fmt: skip
    """Outcomes of the Windows binaries, beside the `linux` ones of the same cells.

    `tools` and `absent` are what `no_gpu.fetch` found, the names of `wheels` among them.
    """
    triton = [outcome for outcome in linux if outcome.cell.tool in HIGHEST_PTX]
    sources = _lowered(triton, tools, cache, say)
    wanted = [*_ptxas_cells(sources, tools, cache), *_triton_cells(triton)]
    if not wanted:
        say("--wine: no Triton kernel is for this tier")
        return []
    found, reasons = _folders(wanted, tools, absent)
    keys = matrix.Keys(found)
    todo = [c for c in wanted if c.tool in found and not (cache / f"{keys.of(c)}.json").is_file()]
    if todo:
        try:
            _bed()
        except SmforgeError as error:
            return [Outcome(cell, "not-run", str(error)) for cell in wanted]
        say(f"{len(todo)} kernels for the Windows binaries under Wine")
    outcomes = matrix.run(wanted, found, reasons, cache, progress, _start)
    return _compared(outcomes, sources, tools)


@functools.cache
def _bed() -> WindowsPython:
    """Wine and a Windows Python in it, ready."""
    return WindowsPython.prepare(Wine.prepare())


class _WineWorker(Worker):
    """A child in a Windows Python."""

    def ask(self, job: Job) -> Job:
        """The answer; one rename in some hundred fails under Wine, and is tried again."""
        answer = super().ask(job)
        return super().ask(job) if "WinError 1359" in answer.get("error", "") else answer


def _start(tool: str, folder: Path) -> Worker:
    bed = _bed()
    kind = PTXAS if tool.startswith(PTXAS) else TRITON
    bundled = folder / "triton" / "backends" / "nvidia" / "bin"
    environ = bed.environ(folder, matrix.PACKAGE_ROOT) | {"SMFORGE_PTXAS": windows_path(bundled)}
    return _WineWorker(_MODULES[kind], environ, [*_PIPED, "wine", bed.executable])


def _folders(
    wanted: Iterable[Cell], tools: Mapping[str, Path], absent: Mapping[str, str]
) -> tuple[dict[str, Path], dict[str, str]]:
    """Folder or reason of each Wine tool: ptxas.exe and Triton of one wheel share its folder."""
    lacking = missing()
    found, reasons = {}, {}
    for name in {cell.tool for cell in wanted}:
        wheel = f"windows-triton-{name.rpartition('-')[2]}"
        reason = lacking or absent.get(python.PARTS, "") or absent.get(wheel, "")
        if reason or wheel not in tools:
            reasons[name] = reason or f"envs/tools/{wheel}.txt is missing"
        else:
            found[name] = tools[wheel]
    return found, reasons


# -------------------------------------------------------------------------------------------------
# Cells
# -------------------------------------------------------------------------------------------------


def _triton_cells(linux: Iterable[Outcome]) -> list[Cell]:
    """triton-windows for the tiers whose Windows stack has that Triton."""
    table = tiers.load()
    return [
        replace(cell, tool=f"wine-{cell.tool}")
        for cell in (outcome.cell for outcome in linux)
        if f"triton-{table[cell.tier].stack['win-64'].triton}" == cell.tool
    ]


def _lowered(
    linux: list[Outcome], tools: Mapping[str, Path], cache: Path, say: Callable[[str], None]
) -> list[Outcome]:
    """The outcomes, compiled once more to an older PTX where ptxas.exe does not take theirs."""
    found = dict(enumerate(linux))
    again = {}
    for index, outcome in found.items():
        highest = HIGHEST_PTX[outcome.cell.tool]
        texts = matrix.kept_ptx(outcome.cell, tools, cache) if outcome.cell.tool in tools else []
        if any(_number(text) > highest for text in texts):
            jobs = tuple({**job, "ptx_version": highest} for job in outcome.cell.jobs)
            note = f"PTX {highest / 10}, which the Windows ptxas takes"
            again[index] = replace(outcome.cell, jobs=jobs, note=note)
    if again:
        say(f"{len(again)} kernels once more on Linux, to the older PTX that ptxas.exe takes")
    made = matrix.run(list(again.values()), tools, {}, cache, lambda *_: None)
    return list((found | dict(zip(again, made, strict=True))).values())


def _number(ptx: str) -> int:
    major, _, minor = ptx_version(ptx).partition(".")
    return int(major or 0) * 10 + int(minor or 0)


def _ptxas_cells(sources: Iterable[Outcome], tools: Mapping[str, Path], cache: Path) -> list[Cell]:
    """A cell for each source that has PTX, or did not run; a failed one is told by its own."""
    found = []
    for source in sources:
        cell = source.cell
        texts = matrix.kept_ptx(cell, tools, cache) if cell.tool in tools else []
        if source.result == "failed":
            continue
        jobs = tuple(
            {"ptx": text, "capability": job["capability"]}
            for text, job in zip(texts, cell.jobs, strict=bool(texts))
        )
        tool = cell.tool.replace("triton-", PTXAS)
        found.append(replace(cell, tool=tool, jobs=jobs, instruction=""))
    return found


def _compared(
    outcomes: list[Outcome], sources: Iterable[Outcome], tools: Mapping[str, Path]
) -> list[Outcome]:
    """The outcomes; where ptxas.exe counts otherwise than Linux's ptxas, the reason says so."""
    linux = {(s.cell.tier, s.cell.case): s for s in sources}
    return [_with_difference(o, linux, tools) for o in outcomes]


def _with_difference(
    outcome: Outcome, linux: Mapping[tuple[str, str], Outcome], tools: Mapping[str, Path]
) -> Outcome:
    source = linux.get((outcome.cell.tier, outcome.cell.case))
    if not outcome.cell.tool.startswith(PTXAS) or outcome.result != "passed" or source is None:
        return outcome
    # ptxas does not see the shared memory that a launch asks for; Triton's own figure does.
    shared = source.figures.get("shared", 0)
    outcome = replace(outcome, figures=outcome.figures | {"shared": shared})
    mine, other = ([o.figures.get(k, 0) for k in ("registers", "spills")]
                   for o in (outcome, source))  # fmt: skip
    if mine == other:
        return outcome
    said = f"Linux's ptxas {_linux_release(tools[source.cell.tool])}: "
    said += f"{other[0]} registers, {other[1]} bytes spilled; Windows' {outcome.version}: "
    return replace(outcome, reason=f"{said}{mine[0]} and {mine[1]}")


@functools.cache
def _linux_release(folder: Path) -> str:
    program = folder / "triton" / "backends" / "nvidia" / "bin" / "ptxas"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return release(said.stdout)
