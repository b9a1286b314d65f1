"""Device, dtype, TF32, cuDNN and backend: decided by the tier, each with its reason."""

from __future__ import annotations

import pytest
import torch

from smforge import decisions, tiers
from smforge.decisions import Place
from smforge.errors import ConfigurationError, GPUError
from smforge.model import GPT, Shape
from smforge.probe.gpu import Machine
from tests.conftest import machine

NONE = Machine()


def usable() -> str:
    """torch can use the GPU."""
    return ""


def on_gpu(name: str) -> Place:
    return Place("cuda", tiers.load()[name], "test")


def test_without_a_gpu_the_cpu_is_used() -> None:
    place = decisions.place(None, {}, NONE, usable)
    assert (place.device, place.tier.name, place.warning) == ("cpu", "cpu", "")


def test_a_python_of_ones_own_gets_the_cards_tier() -> None:
    place = decisions.place(None, {}, machine((9, 0), cuda=(13, 0)), usable)
    assert (place.device, place.tier.name, place.warning) == ("cuda", "sm90", "")


def test_a_torch_without_cuda_of_ones_own_trains_on_the_cpu_and_says_so() -> None:
    here = machine((9, 0), cuda=(13, 0))
    place = decisions.place(None, {}, here, lambda: "torch is built without CUDA")
    assert place.device == "cpu"
    assert "built without CUDA" in place.warning


def test_an_installed_tier_whose_torch_cannot_use_the_gpu_is_an_error() -> None:
    here = machine((9, 0), cuda=(13, 0))
    with pytest.raises(GPUError, match=r"no kernel image.*--tier cpu"):
        decisions.place(None, {"SMFORGE_TIER": "sm90"}, here, lambda: "no kernel image")


def test_the_warning_about_the_installed_tier_is_passed_on() -> None:
    here = machine((9, 0), cuda=(13, 0))
    place = decisions.place(None, {"SMFORGE_TIER": "cpu"}, here, usable)
    assert place.device == "cpu"
    assert "running on the CPU beside" in place.warning


def test_tier_cpu_always_works() -> None:
    here = machine((9, 0), cuda=(13, 0))
    place = decisions.place("cpu", {"SMFORGE_TIER": "sm90"}, here, lambda: "broken")
    assert place.device == "cpu"


def test_a_lower_tier_can_be_asked_for() -> None:
    place = decisions.place("sm80", {}, machine((9, 0), cuda=(13, 0)), usable)
    assert (place.device, place.tier.name) == ("cuda", "sm80")


@pytest.mark.parametrize(
    ("here", "environ", "missing"),
    [
        (NONE, {}, "no NVIDIA GPU with a working driver was found; --tier cpu always works"),
        (machine((8, 6), cuda=(13, 0)), {}, "needs compute capability 9.0 or higher.* has 8.6"),
        (machine((9, 0), cuda=(11, 0)), {}, "needs a driver for CUDA .*is for CUDA 11.0"),
        (machine((9, 0), cuda=(13, 0)), {"SMFORGE_TIER": "cpu"}, "cpu environment is installed"),
    ],
    ids=["no-gpu", "old-gpu", "old-driver", "cpu-installed"],
)
def test_a_tier_that_cannot_run_here_says_what_is_missing(
    here: Machine, environ: dict[str, str], missing: str
) -> None:
    with pytest.raises(GPUError, match=missing):
        decisions.place("sm90", environ, here, usable)


def test_an_unknown_tier_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="no tier 'sm99'"):
        decisions.place("sm99", {}, NONE, usable)


@pytest.mark.parametrize(
    ("name", "dtype", "tf32", "backend"),
    [
        ("sm35", "float32", "off", "eager"),
        ("sm61", "float32", "off", "eager"),
        ("sm75", "float16", "off", "inductor"),
        ("sm86", "bfloat16", "on", "inductor"),
        ("sm120", "bfloat16", "on", "inductor"),
    ],
)
def test_the_tier_decides(name: str, dtype: str, tf32: str, backend: str) -> None:
    decided = decisions.decide(on_gpu(name), cudnn_version=lambda: 91002)
    assert (decided.dtype.value, decided.tf32.value) == (dtype, tf32)
    assert decided.compile.value == backend
    assert decided.optimizer.value == "fused AdamW"


def test_every_decision_of_every_tier_has_a_reason() -> None:
    for name in tiers.load().tiers:
        lines = decisions.decide(on_gpu(name), cudnn_version=lambda: 91002).lines()
        assert len(lines) == 5
        assert all(len(line.partition(": ")[2]) > 5 for line in lines), lines


@pytest.mark.parametrize(
    ("name", "version", "value"),
    [
        ("sm61", 91002, "on"),
        ("sm61", 91100, "off"),
        ("sm61", 92000, "off"),
        ("sm61", 8902, "on"),
        ("sm90", 92000, "on"),
        ("sm35", 8902, "off"),
    ],
)
def test_cudnn_is_off_where_it_dropped_the_card(name: str, version: int, value: str) -> None:
    assert decisions.decide(on_gpu(name), cudnn_version=lambda: version).cudnn.value == value


def test_the_command_line_overrides_the_tier() -> None:
    decided = decisions.decide(on_gpu("sm90"), "float32", False)
    assert (decided.dtype.value, decided.compile.value) == ("float32", "eager")
    assert "--dtype" in decided.dtype.reason
    assert "--no-compile" in decided.compile.reason


def test_compile_can_be_asked_for_where_the_tier_says_eager() -> None:
    assert decisions.decide(on_gpu("sm61"), None, True).compile.value == "inductor"


def test_a_dtype_that_the_tier_lacks_is_said_so() -> None:
    reason = decisions.decide(on_gpu("sm70"), "bfloat16").dtype.reason
    assert "sm70" in reason


def test_float16_on_the_cpu_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="--dtype float16 needs a GPU"):
        decisions.decide(Place("cpu", tiers.load()["cpu"], ""), "float16")


def test_torchs_switches_are_set_and_set_back() -> None:
    decided = decisions.decide(on_gpu("sm86"), None, False, lambda: 91002)
    assert torch.get_float32_matmul_precision() == "highest"
    with decisions.applied(decided, "cuda"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "highest"


def test_cudnn_is_switched_off_and_back_on() -> None:
    decided = decisions.decide(on_gpu("sm35"), None, False)
    with decisions.applied(decided, "cuda"):
        assert not torch.backends.cudnn.enabled
    assert torch.backends.cudnn.enabled


@pytest.mark.skipif(torch.version.cuda is not None and torch.cuda.is_available(),
                    reason="this machine has a GPU that torch can use")  # fmt: skip
def test_why_torch_cannot_use_the_gpu_is_one_line() -> None:
    problem = decisions.gpu_problem()
    assert "torch" in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("name", "asked", "dtype"),
    [
        ("sm90", None, "bf16"),
        ("sm75", None, "fp16"),
        ("sm86", "float32", "tf32"),
        ("sm61", None, "fp32"),
    ],
)
def test_the_peak_is_that_of_the_dtype_in_use(
    monkeypatch: pytest.MonkeyPatch, name: str, asked: str | None, dtype: str
) -> None:
    tier = tiers.load()[name]
    place = Place("cuda", tier, "test")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Card 0")
    monkeypatch.setattr(decisions, "peak_flops", lambda *asked: asked)
    assert tier.capability
    here = machine(tier.capability)
    decided = decisions.decide(place, asked, cudnn_version=lambda: 91002)
    assert decisions.peak(place, decided, here) == (tier, here.gpus[0], dtype)
    assert decisions.peak(place, decided, machine()) is None


def test_the_cpu_has_no_known_peak() -> None:
    place = Place("cpu", tiers.load()["cpu"], "test")
    assert decisions.peak(place, decisions.decide(place)) is None


def test_gpt2s_step_is_counted_as_the_papers_do() -> None:
    with torch.device("meta"):
        model = GPT(Shape(12, 12, 768, 1024, 50304))
    assert model.flops_per_token == pytest.approx(855e6, rel=0.01)
