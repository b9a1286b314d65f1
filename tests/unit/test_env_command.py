"""`smforge env`, and what the package reads of an activation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from smforge import activation, activation_contract, cli
from smforge.errors import ConfigurationError, ToolchainError


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in activation_contract.load().variables:
        if row.is_output and row.name != "PATH":
            monkeypatch.delenv(row.name, raising=False)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["env", *words]) == 0
    return capsys.readouterr().out


def test_env_prints_status_reason_and_what_is_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SMFORGE_STATUS", "ok")
    monkeypatch.setenv("SMFORGE_REASON", "PYTHONPATH=/x is left out")
    monkeypatch.setenv("CC", "/usr/bin/gcc")
    lines = answer(capsys).splitlines()
    assert lines[:2] == ["status   ok", "reason   PYTHONPATH=/x is left out"]
    assert "CC=/usr/bin/gcc" in lines
    assert not [line for line in lines if line.startswith(("CXX=", "remedy"))]


def test_env_names_the_remedy_of_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SMFORGE_STATUS", "no-gcc")
    assert "remedy   install gcc and g++" in answer(capsys)


def test_env_says_when_nothing_was_activated(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(answer(capsys, "--json"))
    assert found["status"] == "not-activated"
    assert found["remedy"].endswith("pixiw run env")


def test_installed_the_remedy_is_the_programs_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smforge.tiers.in_workspace", lambda: False)
    assert activation.state({}).remedy == "run: smforge env"


def test_env_as_json_holds_every_variable_of_this_platform(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(activation, "platform", lambda: "windows")
    found = json.loads(answer(capsys, "--json"))
    assert found["variables"]["VCToolsVersion"] is None
    assert "USE_LIBUV" in found["variables"]


def test_variables_of_the_other_platform_are_left_out() -> None:
    names = {row.name for row in activation.variables("linux")}
    assert "CC" in names
    assert "VSLANG" not in names


@pytest.mark.parametrize("status", ["no-msvc", "off", ""])
def test_require_stops_unless_the_status_is_ok(status: str) -> None:
    with pytest.raises(ToolchainError, match=f"SMFORGE_MSVC=require.*{status}"):
        activation.require_compiler({"SMFORGE_MSVC": "require", "SMFORGE_STATUS": status})


@pytest.mark.parametrize(
    "words", [["train", "--steps", "1"], ["verify"], ["verify", "--no-gpu"]], ids=" ".join
)
def test_a_command_stops_with_4_where_a_compiler_is_required_and_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setenv("SMFORGE_MSVC", "require")
    monkeypatch.setenv("SMFORGE_STATUS", "no-msvc")
    assert cli.main(words) == 4
    assert "activation ended with no-msvc" in capsys.readouterr().err


def test_require_goes_on_with_a_compiler() -> None:
    activation.require_compiler({"SMFORGE_MSVC": "require", "SMFORGE_STATUS": "ok"})
    activation.require_compiler({"SMFORGE_STATUS": "no-msvc"})


def test_caches_of_ones_own_have_no_problem(tmp_path: Path) -> None:
    folder = tmp_path / "smforge" / "t-1"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o700)
    assert activation.cache_problems({"TRITON_CACHE_DIR": str(folder)}) == []
    assert activation.cache_problems({"TRITON_CACHE_DIR": str(tmp_path / "none")}) == []


def test_a_cache_that_others_can_write_is_named_with_the_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "smforge"
    folder.mkdir()
    folder.chmod(0o777)
    problems = activation.cache_problems({"TRITON_CACHE_DIR": str(folder / "t-1")})
    assert problems == [f"{folder} can be written by others; run: chmod go-w {folder}"]


def test_a_cache_of_somebody_else_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    (problem,) = activation.cache_problems({"TRITON_CACHE_DIR": str(tmp_path)})
    assert "belongs to user" in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# no tables\n", "under '## Variables'"),
        ("\n## Variables\n| a | b | c | d |\n|-|-|-|-|\n| `X` | nowhere | in | x |\n", "row `X`"),
        ("\n## Variables\n| a | b | c | d |\n|-|-|-|-|\n| `X` | both | in |\n", "row `X`"),
    ],
    ids=["none", "place", "columns"],
)
def test_a_contract_that_is_broken_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        activation_contract.load(path)


def test_a_contract_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        activation_contract.load(tmp_path / "none.md")
