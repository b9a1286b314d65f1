"""What verify sets before anything runs on a card."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from smforge import tiers
from smforge.verify.on_gpu import set_cudnn


@pytest.mark.parametrize(
    ("name", "version", "enabled"),
    [("sm35", 8907, False), ("sm61", 91002, True), ("sm61", 91300, False), ("sm90", 91300, True)],
)
def test_cudnn_is_off_on_cards_that_it_does_not_know(
    name: str, version: int, enabled: bool
) -> None:
    said: list[str] = []
    cudnn = SimpleNamespace(enabled=None, version=lambda: version)
    torch = SimpleNamespace(backends=SimpleNamespace(cudnn=cudnn))
    set_cudnn(tiers.load()[name], torch, said.append)
    assert cudnn.enabled is enabled
    assert bool(said) is not enabled
