"""The arithmetic peak of a card, from tiers.toml and NVML's highest clock."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from smforge import peak, tiers
from smforge.probe.gpu import GPU

NVML = SimpleNamespace(
    NVML_CLOCK_SM=1,
    nvmlInit=lambda: None,
    nvmlShutdown=lambda: None,
    nvmlDeviceGetHandleByIndex=lambda index: index,
    nvmlDeviceGetMaxClockInfo=lambda handle, kind: 1830,
)


def card(name: str) -> GPU:
    return GPU(0, name, (9, 0), 80 << 30, "GPU-0")


def test_an_h100s_dense_bf16_peak_is_its_data_sheets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak, "multiprocessors", lambda index: 132)
    found = peak.peak_flops(tiers.load()["sm90"], card("NVIDIA H100"), "bf16", NVML)
    assert found == pytest.approx(989.4e12, rel=1e-3)


def test_geforce_cards_sum_at_half_rate() -> None:
    ampere = tiers.load()["sm86"]
    assert peak.operations_per_clock(ampere, "NVIDIA A40", "bf16") == 1024
    assert peak.operations_per_clock(ampere, "NVIDIA GeForce RTX 3090", "bf16") == 512
    assert peak.operations_per_clock(ampere, "NVIDIA GeForce RTX 3090", "fp32") == 256


@pytest.mark.parametrize("dtype", ["fp8", "nothing"])
def test_an_unknown_figure_is_none(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(peak, "multiprocessors", lambda index: 108)
    assert peak.peak_flops(tiers.load()["sm80"], card("NVIDIA A100"), dtype, NVML) is None


def test_a_card_that_cannot_be_asked_is_none() -> None:
    assert peak.highest_clock(0, SimpleNamespace()) is None
