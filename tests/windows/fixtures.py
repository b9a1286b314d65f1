"""The fixtures of every test that needs Windows: tests/conftest.py hands them to all folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from . import python as python_bed
from .python import WindowsPython
from .wine import Result, Wine, cache_folder, missing

FIXTURES = {"wine", "wine_cmd", "windows_python", "windows_triton"}


@pytest.fixture(scope="session")
def wine() -> Wine:
    """Wine with a prefix that is ready; the test is skipped, with the reason, without it."""
    from tests.conftest import skip_or_fail

    if reason := missing():
        skip_or_fail("wine", reason)
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
    from tests.conftest import skip_or_fail

    host = python_bed.host_python()
    if host is None:
        skip_or_fail("wine", "no Python 3.11 here, whose library the Windows Python borrows")
    assert host is not None
    return python_bed.prepare(wine, host)


@pytest.fixture(scope="session")
def windows_triton(windows_python: WindowsPython) -> Path:
    """The files of triton-windows 3.7, its tcc.exe among them, as in site-packages."""
    host = python_bed.host_python()
    assert host is not None
    return python_bed.triton(host, cache_folder())


def mark_wine(items: Iterable[pytest.Item]) -> None:
    """`-m "not wine"` leaves out whatever asks for one of these fixtures."""
    for item in items:
        if FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.wine)
