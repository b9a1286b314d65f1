"""Children that compile: an abort, a hang and a missing compiler are results, not crashes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from smforge.errors import ToolchainError
from smforge.verify import worker
from smforge.verify.cells import Cell
from smforge.verify.matrix import judge
from smforge.verify.worker import Worker, reason

SOURCE = Path(worker.__file__).parents[2]
CHILD = """
import ctypes, os, time
from smforge.verify.worker import serve
def handle(job):
    if job["do"] == "abort":
        print("LLVM ERROR: no such layout", file=__import__("sys").stderr, flush=True)
        os.abort()
    if job["do"] == "raise":
        raise RuntimeError("noise\\nptxas fatal : no\\nmore noise")
    if job["do"] == "hang":
        time.sleep(60)
    print("noise on standard output")
    return {"ok": True, "answer": job["do"]}
serve({"version": "1"}, handle)
"""


@pytest.fixture
def child(tmp_path: Path) -> Worker:
    (tmp_path / "testchild.py").write_text(CHILD, "utf-8")
    found = Worker("testchild", {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE}"})
    yield found
    found.close()


def test_a_job_is_answered_and_noise_stays_out(child: Worker) -> None:
    assert child.ask({"do": "a"}) == {"ok": True, "answer": "a"}
    assert child.greeting == {"version": "1"}


def test_an_abort_is_a_failed_job_and_the_next_one_runs(child: Worker) -> None:
    answer = child.ask({"do": "abort"})
    assert not answer["ok"]
    assert "LLVM ERROR: no such layout" in answer["error"]
    assert child.ask({"do": "b"})["ok"]


def test_an_exception_is_told_by_its_telling_line(child: Worker) -> None:
    assert child.ask({"do": "raise"})["error"] == "RuntimeError: ptxas fatal : no"


def test_a_hang_is_ended(child: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "TIMEOUT_S", 0.5)
    assert not child.ask({"do": "hang"})["ok"]
    monkeypatch.setattr(worker, "TIMEOUT_S", 60.0)
    assert child.ask({"do": "c"})["ok"]


def test_a_child_that_does_not_start_is_a_toolchain_error() -> None:
    with pytest.raises(ToolchainError, match="does not start"):
        Worker("no_such_module", {**os.environ, "PYTHONPATH": str(SOURCE)})


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_jobs_do_not_share_a_process(child: Worker) -> None:
    assert [child.ask({"do": str(i)})["answer"] for i in range(3)] == ["0", "1", "2"]


def test_the_reason_is_the_line_that_tells() -> None:
    assert reason("a\nb: error: no\nc") == "b: error: no"
    assert reason("") == "no message"


CELL = Cell("sm90", "gemm-bf16", "triton-3.7", True, "", ({},), "wgmma.mma_async", 1000)
ANSWER = {"ok": True, "ptx": "wgmma.mma_async", "registers": 9, "spills": 0, "shared": 10}


def test_a_cell_that_uses_the_tensor_cores_passes() -> None:
    assert judge(CELL, [ANSWER], "3.7.1", 0.1).result == "passed"


def test_a_cell_without_its_tensor_core_instruction_fails() -> None:
    outcome = judge(CELL, [{**ANSWER, "ptx": "mma.sync"}], "3.7.1", 0.1)
    assert outcome.broken
    assert "tensor cores are not used" in outcome.reason


def test_a_cell_that_does_not_fit_the_card_fails() -> None:
    outcome = judge(CELL, [{**ANSWER, "shared": 1001}], "3.7.1", 0.1)
    assert "1001 bytes of shared memory, the card has 1000" in outcome.reason


def test_a_cell_with_one_kernel_that_does_not_compile_fails() -> None:
    outcome = judge(CELL, [ANSWER, {"ok": False, "error": "no"}], "3.7.1", 0.1)
    assert (outcome.result, outcome.reason) == ("failed", "no")
