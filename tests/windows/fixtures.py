"""The fixtures of every test that needs Windows: tests/conftest.py hands them to all folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from smforge import tools
from smforge.wine import prefix, python

from .python import Interpreter
from .wine import Result, Shell

FIXTURES = {"wine", "wine_cmd", "windows_python", "windows_triton"}


@pytest.fixture(scope="session")
def wine() -> Shell:
    """Wine with a prefix that is ready; the test is skipped, with the reason, without it."""
    from tests.conftest import skip_or_fail

    if reason := prefix.missing():
        skip_or_fail("wine", reason)
    return Shell.prepare()


@pytest.fixture
def wine_cmd(wine: Shell, tmp_path: Path) -> Callable[..., Result]:
    """`wine_cmd(script, environ, count=False)`: a batch script under Wine's cmd.exe."""

    def call(script: str, environ: dict[str, str] | None = None, count: bool = False) -> Result:
        return wine.cmd(script, environ, folder=tmp_path, count=count)

    return call


@pytest.fixture(scope="session")
def windows_python(wine: Shell) -> Interpreter:
    """A Windows CPython 3.11 under Wine."""
    from tests.conftest import skip_or_fail

    if reason := python.missing():
        skip_or_fail("wine", reason)
    return Interpreter.prepare(wine)


@pytest.fixture(scope="session")
def windows_triton(wine: Shell) -> Path:
    """The files of triton-windows 3.7, its tcc.exe among them, as in site-packages."""
    return tools.tool_packages("windows-triton-3.7")


def mark_wine(items: Iterable[pytest.Item]) -> None:
    """`-m "not wine"` leaves out whatever asks for one of these fixtures."""
    for item in items:
        if FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.wine)
            # Wine 8 itself fails a start or a rename now and then where two run side by side:
            # once more, told in the summary. Never for a broken script, which has to be noticed.
            if "SMFORGE_TEST_SCRIPTS" not in os.environ:
                item.add_marker(pytest.mark.flaky(reruns=1))
