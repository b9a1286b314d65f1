"""The fixtures of every test that needs Windows: tests/conftest.py hands them to all folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

import pytest

from . import python as python_bed
from .python import WindowsPython
from .wine import Result, Wine, missing

FIXTURES = {"wine", "wine_cmd", "windows_python"}


def give_up(reason: str) -> NoReturn:
    """Skip; fail where SMFORGE_NO_SKIP says that this machine is meant to have Wine."""
    if "wine" in os.environ.get("SMFORGE_NO_SKIP", "").split(","):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def wine() -> Wine:
    """Wine with a prefix that is ready; the test is skipped, with the reason, without it."""
    reason = missing()
    if reason:
        give_up(reason)
    return Wine.prepare()


@pytest.fixture
def wine_cmd(wine: Wine, tmp_path: Path) -> Callable[..., Result]:
    """`wine_cmd(script, environ, count=False)`: a batch script under Wine's cmd.exe."""

    def call(script: str, environ: dict[str, str] | None = None, count: bool = False) -> Result:
        return wine.cmd(script, environ, folder=tmp_path, count=count)

    return call


@pytest.fixture(scope="session")
def windows_python(wine: Wine) -> WindowsPython:
    """A Windows CPython 3.11 under Wine."""
    host = python_bed.host_python()
    if host is None:
        give_up("no Python 3.11 here, whose standard library the Windows Python borrows")
    return python_bed.prepare(wine, host)


def mark_wine(items: Iterable[pytest.Item]) -> None:
    """`-m "not wine"` leaves out whatever asks for one of these fixtures."""
    for item in items:
        if FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.wine)
