"""Which cell is compiled when: the longest first, few starts of compilers, nothing twice."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from smforge.verify import matrix, no_gpu
from smforge.verify.cells import Cell, Outcome, all_cells
from smforge.verify.order import Order, seconds

ADD = Cell("sm90", "vector-add", "triton-3.7", True)
ATTENTION = Cell("sm90", "attention-backward-fp16", "triton-3.7", True)
SGEMM = Cell("sm90", "cuda-sgemm", "nvrtc-12.9", True)


def taken(cells: list[Cell], threads: int) -> list[list[Cell]]:
    """What each thread gets when they ask in turn."""
    order, tools = Order(list(enumerate(cells))), [""] * threads
    found: list[list[Cell]] = [[] for _ in range(threads)]
    for step in range(len(cells)):
        thread = step % threads
        index, tools[thread] = order.take(tools[thread])
        found[thread].append(cells[index])
    return found


def test_the_longest_cell_of_a_tool_comes_first() -> None:
    assert taken([ADD, ATTENTION, ADD], 1) == [[ATTENTION, ADD, ADD]]


def test_the_tool_with_most_work_comes_first() -> None:
    assert taken([SGEMM, ADD, ATTENTION], 1) == [[ATTENTION, ADD, SGEMM]]


def test_threads_start_different_tools() -> None:
    assert taken([ADD, ATTENTION, SGEMM, SGEMM], 2) == [[ATTENTION, ADD], [SGEMM, SGEMM]]


def test_a_thread_without_work_helps_with_the_tool_that_has_some() -> None:
    assert taken([ADD, ADD, ATTENTION, SGEMM], 2) == [[ATTENTION, ADD], [SGEMM, ADD]]


def test_the_whole_matrix_is_handed_out_once_with_few_starts() -> None:
    cells = [*all_cells(), *no_gpu.interpreter_cells("", "")]
    found = taken(cells, 2)
    assert sorted(map(id, found[0] + found[1])) == sorted(map(id, cells))
    starts = sum(len({cell.tool for cell in thread}) for thread in found)
    assert starts <= len({cell.tool for cell in cells}) + 1


def test_every_cell_of_the_matrix_has_a_weight() -> None:
    assert all(seconds(cell) > 0 for cell in all_cells())


def test_no_two_cells_ask_for_the_same_job() -> None:
    jobs = [repr((cell.tool, job)) for cell in all_cells() for job in cell.jobs]
    assert len(jobs) == len(set(jobs))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """The cells that a compiler was asked for, in this order; each passes."""
    asked: list[Cell] = []

    def compile_one(cell: Cell, compilers: object, kept: Path) -> Outcome:
        asked.append(cell)
        outcome = Outcome(cell, "passed", "", "3.7.1", 0.1)
        matrix._write(outcome, [{"ptx": "mma.sync"}], kept)
        return outcome

    monkeypatch.setattr(matrix, "_compile", compile_one)
    return asked


def run(cache: Path, cells: list[Cell]) -> tuple[list[Outcome], list[int]]:
    counted: list[int] = []
    tools = {"triton-3.7": Path("triton-3.7-0")}
    why = {"nvrtc-12.9": "no network"}
    outcomes = matrix.run(cells, tools, why, cache, lambda _, done, total: counted.append(done))
    return outcomes, counted


def test_outcomes_keep_the_order_of_the_cells(tmp_path: Path, compiled: list[Cell]) -> None:
    outcomes, counted = run(tmp_path, [ADD, SGEMM, ATTENTION])
    assert [outcome.cell for outcome in outcomes] == [ADD, SGEMM, ATTENTION]
    assert [outcome.result for outcome in outcomes] == ["passed", "not-run", "passed"]
    assert counted == [1, 2, 3]


def test_what_a_run_kept_is_not_compiled_again(tmp_path: Path, compiled: list[Cell]) -> None:
    run(tmp_path, [ADD])
    outcomes, counted = run(tmp_path, [ADD, ATTENTION])
    assert sorted(compiled, key=seconds) == [ADD, ATTENTION]
    assert [outcome.version for outcome in outcomes] == ["3.7.1", "3.7.1"]
    assert counted == [1, 2]


def test_a_kernel_is_assembled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from triton.backends import backends

    from smforge.verify import triton_worker

    started: list[str] = []
    run_program = subprocess.run

    def noted(command: list[str], **options: object) -> object:
        if "--version" not in command:
            started.append(Path(command[0]).stem)
        return run_program(command, **options)

    monkeypatch.setattr(subprocess, "run", noted)
    compiler = backends["nvidia"].compiler
    monkeypatch.setattr(compiler, "add_stages", compiler.add_stages)  # put back at the end
    monkeypatch.setenv("TRITON_CACHE_DIR", "")  # as well
    triton_worker._assemble_once()
    (job,) = next(cell for cell in all_cells("vector-add", "sm86") if "triton" in cell.tool).jobs
    answer = triton_worker._compiled(job)
    assert len(started) == 1
    assert started[0].startswith("ptxas")
    assert answer["ok"]
    assert answer["target"] == "sm_86"
    assert answer["registers"] > 0
    assert answer["cubin"] > 1000
