"""The tool environment: real venv and pip with wheels of the test's own, no network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from smforge import tables, tools, venvs
from smforge.errors import ConfigurationError, ToolchainError
from tests.unit.wheel_bed import make_wheel


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace whose envs/tools/base.txt pins a wheel `only_here`."""
    root = tmp_path_factory.mktemp("tools") / "workspace"
    (root / "envs" / "tools").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "workspace", lambda: root)
        patch.delenv("SMFORGE_TOOLS", raising=False)  # these tests run in a tool environment
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", (root.parent / "wheels").as_uri())
        pin(root, "base", "only_here", "1.0")
        yield root


def pin(root: Path, name: str, package: str, version: str, head: str = "") -> None:
    files = {f"{package}.py": f"VERSION = {version!r}\n"}
    _, sha256 = make_wheel(root.parent / "wheels", package, version, files)
    text = f"{head}{package}=={version} --hash=sha256:{sha256}\n"
    (root / "envs" / "tools" / f"{name}.txt").write_text(text)


def output(folder: Path, code: str) -> str:
    python = venvs.python_of(folder)
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_tool_environment_has_its_packages_and_the_running_ones(
    workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import sys, only_here, pytest; sys.exit(5 if only_here.VERSION == '1.0' else 1)"
    assert tools.run_in_tool_environment(["-c", code]) == 5
    assert "building the tool environment" in capfd.readouterr().err
    assert tools.run_in_tool_environment(["-c", "import smforge"]) == 0
    assert capfd.readouterr().err == ""  # built once
    inside = "from smforge import tools; import sys; sys.exit(tools.in_tool_environment())"
    assert tools.run_in_tool_environment(["-c", inside]) == 1
    assert not tools.in_tool_environment()


def test_a_changed_pin_is_another_tool_environment(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tools.tool_environment()
    base = workspace / "envs" / "tools" / "base.txt"
    before = base.read_text()
    monkeypatch.setattr(
        venvs,
        "create",
        lambda folder, python: (folder / "lib/python3/site-packages").mkdir(parents=True),
    )
    monkeypatch.setattr(venvs, "pip_install", lambda *words: None)
    pin(workspace, "base", "only_here", "1.1")
    second = tools.tool_environment()
    base.write_text(before)
    assert first != second
    assert tools.tool_environment() == first


def test_packages_for_a_child_lie_apart(workspace: Path) -> None:
    pin(workspace, "triton-9.9", "apart", "9.9")
    target = tools.tool_packages("triton-9.9")
    assert (target / "apart.py").is_file()
    with pytest.raises(subprocess.CalledProcessError):
        output(tools.tool_environment(), "import apart")
    assert tools.tool_packages("triton-9.9") == target


def test_windows_packages_need_the_python_they_are_for(workspace: Path) -> None:
    pin(workspace, "windows-bad", "apart", "9.9")
    with pytest.raises(ConfigurationError, match=r"lacks a line `# python-version: 3\.12`"):
        tools.tool_packages("windows-bad")
    pin(workspace, "windows-good", "apart", "9.9", head="# python-version: 3.12\n")
    assert (tools.tool_packages("windows-good") / "apart.py").is_file()


def test_unknown_pins_are_a_configuration_error(workspace: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"envs/tools/nothing\.txt is missing"):
        tools.tool_packages("nothing")


@pytest.mark.parametrize(
    ("text", "plain"),
    [("/a/b-1", True), ("/a b", False), ("/é", False)],
    ids=["plain", "blank", "accent"],
)
def test_a_path_is_plain_without_blank_and_accents(text: str, plain: bool) -> None:
    assert venvs.is_plain(Path(text)) is plain


def test_a_build_that_fails_leaves_no_mark(tmp_path: Path) -> None:
    folder = tmp_path / "built"

    def fail(folder: Path) -> None:
        folder.mkdir()
        raise ToolchainError("broken")

    with pytest.raises(ToolchainError):
        venvs.build_once(folder, fail)
    assert not venvs.is_complete(folder)
    assert venvs.build_once(folder, Path.mkdir)
    assert not venvs.build_once(folder, Path.mkdir)


def test_an_environment_whose_python_is_gone_is_not_complete(tmp_path: Path) -> None:
    folder = tmp_path / "built"

    def build(folder: Path) -> None:
        folder.mkdir()
        (folder / "pyvenv.cfg").write_text(f"home = {tmp_path / 'removed'}\n")
        venvs.python_of(folder).parent.mkdir()
        venvs.python_of(folder).symlink_to(sys.executable)

    venvs.build_once(folder, build)
    assert not venvs.is_complete(folder)
    (tmp_path / "removed").mkdir()
    assert venvs.is_complete(folder)


def test_an_environment_whose_python_another_user_hides_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / ".complete").touch()
    (tmp_path / "pyvenv.cfg").write_text("home = /home/somebody/bin\n")
    monkeypatch.setattr(Path, "is_dir", hidden)
    assert not venvs.is_complete(tmp_path)
