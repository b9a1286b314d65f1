"""The harness itself: what the Wine tests of every folder stand on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from smforge.wine.prefix import COMPILER, missing, windows_path

from .python import Interpreter
from .wine import Result, Shell

Cmd = Callable[..., Result]


def test_a_batch_script_runs(wine_cmd: Cmd) -> None:
    result = wine_cmd('echo "%SOME VALUE%"', {"SOME VALUE": "a (x86) & b"})
    assert (result.returncode, result.stdout, result.stderr) == (0, '"a (x86) & b"\n', "")


def test_an_exit_code_comes_back(wine_cmd: Cmd) -> None:
    assert wine_cmd("exit /b 3").returncode == 3


def test_windows_says_it_is_10(wine_cmd: Cmd) -> None:
    assert "10.0" in wine_cmd("ver").stdout


def test_variables_that_wine_sets_anew_are_ours(wine_cmd: Cmd) -> None:
    given = {"LOCALAPPDATA": r"Z:\profile", "ProgramFiles(x86)": r"Z:\PF (x86)"}
    result = wine_cmd("echo %LOCALAPPDATA%,%ProgramFiles(x86)%", given)
    assert result.stdout == "Z:\\profile,Z:\\PF (x86)\n"


def test_processes_are_counted(wine_cmd: Cmd) -> None:
    child = '"%SystemRoot%\\System32\\cmd.exe" /d /c rem\n'
    assert [wine_cmd(child * n, count=True).processes for n in range(3)] == [0, 1, 2]


def test_the_prefix_is_made_once(wine: Shell) -> None:
    marker = wine.folder / ".complete"
    before = marker.stat().st_mtime_ns
    assert Shell.prepare() == wine
    assert marker.stat().st_mtime_ns == before


def test_a_windows_python_runs(windows_python: Interpreter) -> None:
    code = "import sys, ssl, ctypes, sqlite3; print(sys.version_info[:2], sys.platform)"
    result = windows_python.run("-c", code)
    assert (result.returncode, result.stdout) == (0, "(3, 11) win32\n"), result.stderr


def test_a_windows_python_imports_from_a_folder(
    windows_python: Interpreter, tmp_path: Path
) -> None:
    (tmp_path / "here.py").write_text("VALUE = '\xe9'\n", "utf-8")
    result = windows_python.run("-c", "import here; print(here.VALUE)", path=[tmp_path])
    assert result.stdout == "\xe9\n", result.stderr


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == COMPILER else "/bin/x")
    assert missing() == f"no {COMPILER} here (packages: gcc-mingw-w64-x86-64)"


def test_paths_are_below_the_drive_Z() -> None:
    assert windows_path(Path("/a b/c")) == r"Z:\a b\c"
