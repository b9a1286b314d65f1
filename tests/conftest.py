"""Paths and simulated machines that every test may use."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from smforge.probe.gpu import GPU, Machine

from .windows.fixtures import mark_wine, windows_python, windows_triton, wine, wine_cmd

__all__ = ["windows_python", "windows_triton", "wine", "wine_cmd"]  # fixtures, for every folder

ROOT = Path(__file__).resolve().parent.parent
NO_SKIP = frozenset(os.environ.get("SMFORGE_NO_SKIP", "").replace(",", " ").split())

# A shell that starts a job in the background has it ignore Ctrl-C, and its children inherit that;
# the tests that stop children would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def skip_or_fail(kind: str, reason: str) -> None:
    """Skip with a reason, or fail where SMFORGE_NO_SKIP says that the thing must be there."""
    if kind in NO_SKIP:
        pytest.fail(f"{reason}, and SMFORGE_NO_SKIP names {kind}")
    pytest.skip(reason)


def machine(
    *capabilities: tuple[int, int], cuda: tuple[int, int] | None = (12, 8), driver: str = "570.1"
) -> Machine:
    """A machine with one GPU per capability; no capability: no GPU and no driver."""
    if not capabilities:
        return Machine()
    gpus = tuple(GPU(i, f"Card {i}", c, 8 << 30, f"GPU-{i}") for i, c in enumerate(capabilities))
    return Machine(gpus, driver, cuda, min(capabilities), "test")


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_wine(items)
