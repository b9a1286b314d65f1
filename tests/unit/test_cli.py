"""The command line: help, one-line errors, exit codes, and imports that stay light."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from smforge import cli, errors, files
from tests.conftest import ROOT

LIGHT = ["smforge.cli", "smforge.tiers", "smforge.which", "smforge.tiers_command",
         "smforge.probe.gpu", "smforge.evidence"]  # fmt: skip


def smforge(*words, **environ):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SMFORGE_", "CONDA_OVERRIDE"))}
    return subprocess.run(
        [sys.executable, "-m", "smforge", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**env, "PYTHONPATH": str(ROOT / "src"), **environ},
        check=False,
    )


def test_help_names_every_command_and_the_exit_codes(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in cli.COMMANDS)
    assert "exit codes" in shown


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_has_help(name):
    done = smforge(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"smforge {name}" in done.stdout


def test_pytests_own_options_reach_it(monkeypatch):
    from smforge import tools

    seen = []
    monkeypatch.setattr(tools, "run_in_tool_environment", lambda argv: seen.append(argv) or 0)
    assert cli.main(["test", "-q", "-k", "tiers", "tests/unit", "-x"]) == 0
    assert seen[0][-5:] == ["-q", "-k", "tiers", "tests/unit", "-x"]


def test_which_answers_for_another_machine():
    done = smforge("which", "--json", CONDA_OVERRIDE_CUDA="12.8", CONDA_OVERRIDE_CUDA_ARCH="8.6")
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert answer["tier"] == "sm86"
    assert answer["cuda_driver"] == "12.8"


def test_which_fails_with_3_where_the_installed_tier_cannot_run():
    done = smforge("which", SMFORGE_TIER="sm120", CONDA_OVERRIDE_CUDA="12.4",
                   CONDA_OVERRIDE_CUDA_ARCH="12.0")  # fmt: skip
    assert done.returncode == 3
    assert "update the driver" in done.stdout


def test_an_unknown_installed_tier_is_one_line_and_2():
    done = smforge("which", SMFORGE_TIER="sm1")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no tier 'sm1'" in done.stderr


def test_tiers_prints_every_tier_as_text_and_json():
    text, data = smforge("tiers"), smforge("tiers", "--json")
    names = list(json.loads(data.stdout))
    assert names[0] == "cpu"
    assert all(name in text.stdout for name in names)


@pytest.mark.parametrize(
    "words",
    [("nosuch",), (), ("which", "--nope"), ("tiers", "--json", "--readme"), ("train", "--steps=x")],
)
def test_a_wrong_option_is_one_line_and_2(words, capsys):
    assert cli.main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "--help" in shown.err


def test_a_wrong_option_names_a_command_that_can_be_typed_here(capsys):
    for words in (["train", "--nope"], ["train", "--steps=x"]):
        cli.main(words)
        assert "; see ./pixiw run smforge train --help\n" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is not there")
@pytest.mark.parametrize("buffering", ["", "1"], ids=["buffered", "unbuffered"])
def test_output_that_cannot_be_written_is_one_line_and_2(buffering):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "smforge", "tiers"], stdout=full, stderr=subprocess.PIPE,
            text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": buffering},
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "smforge: error: the output: No space left on device\n"


def test_a_file_that_the_system_refuses_is_one_line_and_2(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("smforge.which.run", lambda args: tmp_path.read_text())
    assert cli.main(["which"]) == 2
    assert capsys.readouterr().err == f"smforge: error: {tmp_path}: Is a directory\n"


def test_a_folder_that_cannot_be_written_is_a_configuration_error(tmp_path):
    with pytest.raises(errors.ConfigurationError, match=r"x\.txt cannot be written \(No such"):
        files.replace(tmp_path / "nowhere" / "x.txt", "text")


def test_an_unexpected_error_is_one_line_and_1(monkeypatch, capsys):
    monkeypatch.setattr("smforge.which.run", lambda args: 1 // 0)
    assert cli.main(["which"]) == 1
    shown = capsys.readouterr().err
    assert "internal error: ZeroDivisionError" in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [(errors.ConfigurationError, 2), (errors.GPUError, 3), (errors.ToolchainError, 4),
     (errors.VerificationError, 5), (KeyboardInterrupt, 130)],
)  # fmt: skip
def test_each_error_has_its_exit_code(monkeypatch, error, code):
    def fail(args):
        raise error("why")

    monkeypatch.setattr("smforge.which.run", fail)
    assert cli.main(["which"]) == code


@pytest.mark.parametrize("module", LIGHT)
def test_it_imports_with_the_standard_library_alone(module):
    script = (
        "import importlib, sys; before = set(sys.modules)\n"
        f"importlib.import_module({module!r})\n"
        "new = {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'smforge'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_the_console_script_too_leaves_at_once_after_a_solve():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    module, _, function = scripts["smforge"].partition(":")
    script = (
        "import atexit, sys, types\n"
        "sys.modules['rattler'] = types.ModuleType('rattler')\n"
        "atexit.register(print, 'the interpreter ends')\n"
        f"from {module} import {function}\n"
        f"sys.argv = ['smforge', 'tiers']\nsys.exit({function}())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert "sm86" in done.stdout
    assert "the interpreter ends" not in done.stdout


def test_a_reader_that_leaves_the_pipe_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m smforge tiers --json | head -1", shell=True, capture_output=True,
        text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, check=False,
    )  # fmt: skip
    assert done.stdout == "{\n"
    assert done.stderr == ""
