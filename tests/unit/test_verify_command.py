"""`smforge verify` from the outside: exit codes, options, and rows for evidence.toml."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import pytest

from smforge import cli, evidence_tables, verify
from smforge.evidence import Run
from smforge.report.rows import rows
from smforge.tables import build
from smforge.verify import no_gpu
from smforge.verify.cells import Cell, Outcome
from smforge.verify.result import CaseResult, load
from tests.conftest import machine

DATA = Path(__file__).with_name("data")
CELL = Cell("sm90", "gemm-bf16", "triton-3.7", True)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No card, no installed tier, and reports below a temporary folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SMFORGE_TIER", raising=False)
    monkeypatch.setattr("smforge.report.tables.in_workspace", lambda: False)
    monkeypatch.setattr("smforge.verify.gpu.detect", machine)
    monkeypatch.setattr("smforge.tools.in_tool_environment", lambda: True)
    return tmp_path


def compiled(monkeypatch: pytest.MonkeyPatch, *outcomes: Outcome) -> None:
    monkeypatch.setattr(no_gpu, "run", lambda *args: list(outcomes))


def test_without_a_card_the_code_is_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify"]) == 3
    assert "--no-gpu" in capsys.readouterr().err


def test_an_unknown_tier_is_a_configuration_error() -> None:
    assert cli.main(["verify", "--no-gpu", "--tier", "sm42"]) == 2


def test_a_matrix_that_compiles_ends_with_0(
    monkeypatch: pytest.MonkeyPatch, in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled(monkeypatch, Outcome(CELL, "passed", "", "3.7.1"))
    assert cli.main(["verify", "--no-gpu"]) == 0
    assert "ok: 1 of 1 compiled" in capsys.readouterr().out
    assert len(list(in_folder.glob("reports/*/verify.*"))) == 2


def test_a_broken_promise_ends_with_5(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled(monkeypatch, Outcome(CELL, "failed", "no"))
    assert cli.main(["verify", "--no-gpu"]) == 5
    assert "FAILED: gemm-bf16 for sm90 (triton-3.7)" in capsys.readouterr().out


def test_a_known_limit_ends_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(monkeypatch, Outcome(dataclasses.replace(CELL, promised=False), "failed", "no"))
    assert cli.main(["verify", "--no-gpu"]) == 0


def test_what_could_not_be_fetched_fails_only_when_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(monkeypatch, Outcome(CELL, "not-run", "no network"))
    assert cli.main(["verify", "--no-gpu"]) == 0
    assert cli.main(["verify", "--no-gpu", "--strict"]) == 5


def test_a_toolchain_that_cannot_be_had_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from smforge.errors import ToolchainError

    def refuse(name: str) -> Path:
        raise ToolchainError(f"{name}: no network")

    monkeypatch.setattr("smforge.tools.tool_packages", refuse)
    found, missing = no_gpu.fetch(["triton-3.7"], lambda line: None)
    assert found == {}
    assert missing["triton-3.7"] == "triton-3.7: no network"


def test_rows_of_a_run_are_valid_evidence() -> None:
    report = load(DATA / "verify-h200.json")
    found = [build(Run, row, "row") for row in tomllib.loads(rows(report))["run"]]
    assert [row.tier for row in found] == ["sm90", "sm90"]
    assert found[0].figures["gemm-bf16"] == pytest.approx(1.02, abs=0.01)
    assert "gemm-bf16" in evidence_tables.tables(found)


def test_rows_of_a_matrix_tell_what_compiled() -> None:
    report = verify._empty(
        "all", "no-gpu", machine(),
        cells=tuple(
            verify_cell(tier, case, result, promised)
            for tier, case, result, promised in (
                ("sm90", "gemm-bf16", "passed", True),
                ("sm70", "gemm-fp16", "passed", True),
                ("sm70", "attention-fp16", "failed", False),
                ("sm61", "gemm-fp16", "passed", False),
            )
        ),
    )  # fmt: skip
    found = [build(Run, row, "row") for row in tomllib.loads(rows(report))["run"]]
    text = evidence_tables.tables(found)
    assert "| kernel | sm90 | sm70 | sm61 |" in text
    assert "| gemm-fp16 | - | yes | (yes) |" in text
    assert "| attention-fp16 | - | no | - |" in text


def verify_cell(tier: str, case: str, result: str, promised: bool) -> object:
    from smforge.verify.result import CellResult

    return CellResult(tier, case, "triton-3.7", promised, result, version="3.7.1")


def test_slow_is_not_broken() -> None:
    report = load(DATA / "verify-h200.json")
    slow = CaseResult("a", "triton", "fp32", "slow")
    assert dataclasses.replace(report, cases=(slow,)).failed == []
    assert dataclasses.replace(report, cases=(slow,)).incomplete == ["a"]
