"""`smforge verify --wine`: real Windows binaries, a broken PTX, and machines without Wine."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from smforge import cli, tools
from smforge.errors import ToolchainError
from smforge.report.rows import rows
from smforge.report.text import table
from smforge.verify import matrix, no_gpu, under_wine
from smforge.verify.cells import Cell, Outcome
from smforge.verify.result import load

from .python import Interpreter

TIER, CASE = "sm120", "cast-e5m2"  # Linux's own PTX for this tier is too new for ptxas.exe
SELECTED = ["verify", "--wine", "--tier", TIER, "--only", CASE]
TOOLS = ["triton-3.7", "wine-ptxas-3.7", "wine-triton-3.7"]


@pytest.fixture
def report_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command leaves its report; it compiles everything anew."""
    folder = tmp_path / "report"
    folder.mkdir()
    monkeypatch.setattr("smforge.report._folder", lambda: folder)
    monkeypatch.setattr(matrix, "_read", lambda cell, kept: None)  # nothing from an earlier run
    return folder


@pytest.fixture
def toolchains(windows_python: Interpreter) -> Interpreter:
    """Linux's Triton 3.7 and the Windows one, or a skip."""
    from tests.conftest import skip_or_fail

    try:
        for name in ("triton-3.7", "windows-triton-3.7"):
            tools.tool_packages(name)
    except ToolchainError as error:
        skip_or_fail("wine", str(error))
    return windows_python


@pytest.mark.slow
def test_the_windows_binaries_compile_a_kernel_and_count_as_linux_does(
    toolchains: Interpreter, report_folder: Path
) -> None:
    assert cli.main(SELECTED) == 0
    report = load(report_folder)
    cells = [cell for cell in report.cells if cell.case == CASE and cell.tier == TIER]
    assert [(cell.tool, cell.result) for cell in cells] == [(tool, "passed") for tool in TOOLS]
    assert cells[1].version == "12.8.93"
    assert cells[2].version.startswith("3.7.")
    assert all(cell.registers > 0 for cell in cells)
    assert report.findings == ()
    assert report.versions["wine"]
    assert "Windows binaries under Wine" in table(report)
    assert 'how = "wine"' in rows(report)


@pytest.mark.slow
def test_a_ptx_that_ptxas_exe_refuses_fails_its_cell_alone(
    toolchains: Interpreter, report_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = matrix.kept_ptx

    def broken(*words: object) -> list[str]:
        return [text.replace("ret;", "retire;") for text in kept(*words)]

    monkeypatch.setattr(matrix, "kept_ptx", broken)
    assert cli.main(SELECTED) == 5
    cells = {cell.tool: cell for cell in load(report_folder).cells}
    assert [cells[tool].result for tool in TOOLS] == ["passed", "failed", "passed"]
    assert "retire" in cells["wine-ptxas-3.7"].reason


@pytest.mark.slow
def test_a_windows_child_that_hangs_is_ended(
    toolchains: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smforge.verify import worker

    child = under_wine._start("wine-ptxas-3.7", tools.tool_packages("windows-triton-3.7"))
    monkeypatch.setattr(worker, "TIMEOUT_S", 0.0)
    assert not child.ask({"ptx": "", "capability": 86})["ok"]
    child.close()


SOURCE = Cell(TIER, CASE, "triton-3.7", True, "", ({"capability": 120},), "", 1000)
PASSED = Outcome(SOURCE, "passed", "", "3.7.1", 0.1, {"registers": 10, "spills": 0, "shared": 8})


def test_without_wine_its_cells_are_not_run_and_name_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    outcomes = under_wine.run([PASSED], {}, {}, tmp_path, print, lambda *_: None)
    assert [outcome.cell.tool for outcome in outcomes] == TOOLS[1:]
    for outcome in outcomes:
        assert (outcome.result, outcome.broken) == ("not-run", False)
        assert "packages: gcc-mingw-w64-x86-64 wine" in outcome.reason
    assert under_wine.wheels([SOURCE]) == set()


def test_another_count_than_linux_is_told_and_does_not_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_wine, "_linux_release", lambda folder: "12.8.93")
    cell = dataclasses.replace(SOURCE, tool="wine-ptxas-3.7")
    other = Outcome(cell, "passed", "", "12.8.93", 0.1, {"registers": 12, "spills": 0})
    (told,) = under_wine._compared([other], [PASSED], {"triton-3.7": tmp_path})
    assert told.result == "passed"
    assert "12.8.93: 10 registers" in told.reason
    (same,) = under_wine._compared(
        [dataclasses.replace(other, figures=PASSED.figures)], [PASSED], {}
    )
    assert same.reason == ""


def test_outside_a_checkout_wine_is_a_configuration_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("smforge.tables.in_workspace", lambda: False)
    assert cli.main(["verify", "--wine"]) == 2
    assert "needs a checkout" in capsys.readouterr().err


def test_the_size_of_a_windows_wheel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smforge.venvs.is_complete", lambda folder: False)
    assert no_gpu.download_size("windows-triton-3.7") == 49679173
