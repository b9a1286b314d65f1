"""The reference kernels on a card: each test needs CUDA, and two inject a fault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smforge import cli
from smforge.kernels.catalogue import CASES
from smforge.kernels.operation import Tensors
from smforge.kernels.tuning import Config
from tests.conftest import skip_or_fail

pytestmark = pytest.mark.gpu


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    """One card, and no configuration chosen yet."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        skip_or_fail("gpu", "no NVIDIA GPU")
    from smforge.verify import bench, on_gpu

    tuned = bench.Tuned(tmp_path / "tuned.json", "test")
    capability = on_gpu.nearest(torch.cuda.get_device_capability(0))
    found = bench.Bench(capability, on_gpu._triton_version(), {}, tuned)
    found.measure_copy()
    return found


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Reports go where this test can see them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("smforge.tables.in_workspace", lambda: False)
    return tmp_path


def result_of(bench: Any, name: str) -> Any:
    from smforge.verify import bench as runner

    return runner.run([CASES[name]], bench, lambda _: None)[0]


@pytest.mark.parametrize("name", ["vector-add", "softmax-fp16", "cuda-block-reduction"])
def test_a_kernel_is_right_and_timed(bench: Any, name: str) -> None:
    result = result_of(bench, name)
    assert result.result == "passed", result.reason
    assert 0 < result.p10_ms <= result.median_ms <= result.p90_ms
    assert 0 < result.fraction < 1.5


def test_a_threshold_that_is_missed_is_slow_and_not_failed(bench: Any) -> None:
    bench.thresholds["vector-add"] = 10.0
    result = result_of(bench, "vector-add")
    assert result.result == "slow"
    assert "measured before: 1000%" in result.reason


def test_a_kernel_that_leaves_elements_unwritten_fails(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smforge.kernels.elementwise_operations import VectorAdd

    launch = VectorAdd.launch

    def short(self: VectorAdd, inputs: Tensors, outputs: Tensors, config: Config) -> None:
        some = {name: tensor[:-1] for name, tensor in inputs.items()}
        launch(self, some, {"out": outputs["out"][:-1]}, config)

    monkeypatch.setattr(VectorAdd, "launch", short)
    result = result_of(bench, "vector-add")
    assert result.result == "failed"
    assert "1 of" in result.reason


def test_a_broken_kernel_fails_and_the_next_one_runs(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smforge.kernels import triton_elementwise, triton_rows

    monkeypatch.setattr(triton_elementwise, "vector_add", triton_elementwise.cast)
    assert result_of(bench, "vector-add").result == "failed"
    monkeypatch.undo()
    assert triton_rows.softmax
    assert result_of(bench, "vector-add").result == "passed"


@pytest.mark.usefixtures("bench")
def test_verify_writes_its_report_and_ends_with_0(
    in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["verify", "--only", "cast-e5m2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [case["result"] for case in printed["cases"]] == ["passed"]
    assert list(in_folder.glob("reports/*/verify.html"))
