"""Compile every cell on all cores, keep results by content, and judge what the compilers made."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from smforge.errors import SmforgeError
from smforge.kernels import catalogue
from smforge.verify.cells import Cell, Outcome
from smforge.verify.order import Order
from smforge.verify.worker import Job, Worker

Progress = Callable[[Outcome, int, int], None]
Start = Callable[[str, Path], Worker]
_KERNELS = Path(catalogue.__file__).parent
PACKAGE_ROOT = _KERNELS.parents[1]
_WORKERS = {
    "triton": "smforge.verify.triton_worker",
    "nvrtc": "smforge.verify.nvrtc_worker",
    "interpreter": "smforge.verify.interpreter_worker",
}


class Compilers:
    """The child processes: one a thread and toolchain, started when first needed."""

    def __init__(self, tools: Mapping[str, Path], start: Start) -> None:
        self._tools, self._start = tools, start
        self._local = threading.local()
        self._all: list[Worker] = []
        self._lock = threading.Lock()

    def of(self, tool: str) -> Worker:
        """This thread's child for a toolchain."""
        mine: dict[str, Worker] = self._local.__dict__
        if tool not in mine:
            mine[tool] = self._start(tool, self._tools[tool])
            with self._lock:
                self._all.append(mine[tool])
        return mine[tool]

    def close(self) -> None:
        """End every child."""
        for worker in self._all:
            worker.close()


def start_worker(tool: str, folder: Path) -> Worker:
    """A child of this Python for a toolchain."""
    return Worker(_WORKERS[tool.partition("-")[0]], environ(folder))


def environ(tool: Path) -> dict[str, str]:
    """A child's environment: this toolchain's packages and smforge, and no user's settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON_", "PYTHON"))}
    path = os.pathsep.join([str(tool), str(PACKAGE_ROOT)])
    return kept | {"PYTHONPATH": path, "PYTHONUTF8": "1", "SMFORGE_NVRTC": str(tool)}


def run(
    cells: list[Cell],
    tools: Mapping[str, Path],
    missing: Mapping[str, str],
    cache: Path,
    progress: Progress,
    start: Start | None = None,
) -> list[Outcome]:
    """Outcomes in the order of the cells.

    `tools` are the folders of the toolchains at hand, `missing` says why others are not; `cache`
    keeps what compiled, by the content of kernels and toolchain;
    `start` starts a toolchain's child.
    """
    key = Keys(tools)
    outcomes: dict[int, Outcome] = {}
    kept: dict[int, Path] = {}
    for index, cell in enumerate(cells):
        if cell.tool not in tools:
            reason = missing.get(cell.tool, f"{cell.tool} is missing")
            outcomes[index] = Outcome(cell, "not-run", reason)
            continue
        kept[index] = cache / f"{key.of(cell)}.json"
        if known := _read(cell, kept[index]):
            outcomes[index] = known
    for done, outcome in enumerate(outcomes.values(), 1):
        progress(outcome, done, len(cells))
    todo = [(i, cell) for i, cell in enumerate(cells) if i not in outcomes]
    for index, outcome in _compiled(todo, Compilers(tools, start or start_worker), kept):
        outcomes[index] = outcome
        progress(outcome, len(outcomes), len(cells))
    return [outcomes[i] for i in range(len(cells))]


def _compiled(
    todo: list[tuple[int, Cell]], compilers: Compilers, kept: Mapping[int, Path]
) -> Iterator[tuple[int, Outcome]]:
    """Index and outcome of each cell, as they come, compiled on all cores."""
    order, mine, cells = Order(todo), threading.local(), dict(todo)

    def one() -> tuple[int, Outcome]:
        index, mine.tool = order.take(getattr(mine, "tool", ""))
        return index, _compile(cells[index], compilers, kept[index])

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            for future in as_completed([pool.submit(one) for _ in todo]):
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            compilers.close()


def _compile(cell: Cell, compilers: Compilers, kept: Path) -> Outcome:
    start = time.perf_counter()
    try:
        worker = compilers.of(cell.tool)
        answers = [worker.ask(job) for job in cell.jobs]
    except SmforgeError as error:
        return Outcome(cell, "failed", str(error))
    seconds = round(time.perf_counter() - start, 3)
    outcome = judge(cell, answers, str(worker.greeting["version"]), seconds)
    _write(outcome, answers, kept)
    return outcome


def judge(cell: Cell, answers: list[Job], version: str, seconds: float) -> Outcome:
    """Passed when every kernel compiled, fits the card and uses the tensor cores it should."""
    errors = [answer["error"] for answer in answers if not answer["ok"]]
    if errors:
        return Outcome(cell, "failed", errors[0], version, seconds)
    if "ptx" not in answers[0]:  # it ran in the interpreter: there is no machine code
        return Outcome(cell, "passed", "", version, seconds)
    figures = {
        "registers": max(answer["registers"] for answer in answers),
        "spills": sum(answer["spills"] for answer in answers),
        "shared": max(answer.get("shared", 0) for answer in answers),
    }
    if cell.instruction and not any(cell.instruction in answer["ptx"] for answer in answers):
        reason = f"no {cell.instruction} in the PTX: the tensor cores are not used"
    elif figures["shared"] > cell.shared_limit:
        reason = f"{figures['shared']} bytes of shared memory, the card has {cell.shared_limit}"
    else:
        return Outcome(cell, "passed", "", version, seconds, figures)
    return Outcome(cell, "failed", reason, version, seconds, figures)


# -------------------------------------------------------------------------------------------------
# Results by content
# -------------------------------------------------------------------------------------------------


class Keys:
    """Names of kept results: a hash of the kernels' sources, the toolchain and the job."""

    def __init__(self, tools: Mapping[str, Path]) -> None:
        sources = digest_of(sorted([*_KERNELS.glob("*.py"), *_KERNELS.glob("cuda/*.cu")]))
        workers = digest_of(sorted(Path(__file__).parent.glob("*.py")))
        self._base = sources + workers
        # The folder's name holds the hash of its pinned requirements.
        self._tools = {name: folder.name for name, folder in tools.items()}

    def of(self, cell: Cell) -> str:
        """The name of a cell's result."""
        parts = [self._base, cell.tool, self._tools[cell.tool], cell.tier, cell.case]
        text = json.dumps([*parts, cell.instruction, cell.shared_limit, cell.jobs])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def digest_of(files: Iterable[Path]) -> str:
    """One hash over the content of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _read(cell: Cell, kept: Path) -> Outcome | None:
    try:
        data: dict[str, Any] = json.loads(kept.read_text("utf-8"))
        return Outcome(cell, **data["outcome"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def kept_ptx(cell: Cell, tools: Mapping[str, Path], cache: Path) -> list[str]:
    """The PTX of each of a cell's jobs, as a run kept it; [] where it did not pass."""
    try:
        data = json.loads((cache / f"{Keys(tools).of(cell)}.json").read_text("utf-8"))
        texts: list[str] = data["ptx"]
        return texts if all(texts) else []
    except (OSError, ValueError, KeyError):
        return []


def _write(outcome: Outcome, answers: list[Job], kept: Path) -> None:
    fields = ("result", "reason", "version", "seconds", "figures")
    data = {
        "outcome": {name: getattr(outcome, name) for name in fields},
        "ptx": [answer.get("ptx", "") for answer in answers],
    }
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    partial.write_text(json.dumps(data), "utf-8")
    partial.replace(kept)
