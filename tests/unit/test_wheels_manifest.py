"""pixi.toml as the wheel engine reads it: pixi's rules of precedence, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from smforge.errors import ConfigurationError
from smforge.wheels import manifest


def read(folder: Path, text: str) -> manifest.Manifest:
    (folder / "envs" / "wheels").mkdir(parents=True)
    (folder / "pixi.toml").write_text(text)
    return manifest.find(None, folder, folder)


def test_a_features_variable_beats_the_default_features(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        '[activation.env]\nA = "default"\nB = "default"\n'
        '[feature.f.activation.env]\nA = "feature"\n[environments]\nenv = ["f"]\n',
    )
    assert found.variables("env", "linux-64-cpu") == {"A": "feature", "B": "default"}


def test_the_later_target_beats_the_earlier(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        '[target."*-cpu".activation.env]\nA = "glob"\n'
        '[target."linux-64".activation.env]\nA = "subdir"\n'
        '[target.win.activation.env]\nA = "windows"\n[activation.env]\nA = "general"\n',
    )
    assert found.variables("default", "linux-64-cpu") == {"A": "subdir"}
    assert found.variables("default", "win-64-cpu") == {"A": "windows"}


def test_scripts_come_from_the_most_specific_table_and_the_default_feature_is_last(
    tmp_path: Path,
) -> None:
    found = read(
        tmp_path,
        '[activation]\nscripts = ["general.sh"]\n'
        '[target.unix.activation]\nscripts = ["unix.sh"]\n'
        '[feature.f.activation]\nscripts = ["feature.sh"]\n[environments]\nenv = ["f"]\n',
    )
    assert found.scripts("env", "linux-64-cpu") == ["feature.sh", "unix.sh"]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ('{ cmd = "echo $HOME" }', r"'\$' is shell syntax"),
        ('"python a.py && python b.py"', "'&' is shell syntax"),
        ('{ cmd = "python a.py", inputs = ["a"] }', "does not know 'inputs'"),
        ("5", "found 5, expected a table"),
    ],
    ids=["variable", "two-commands", "caching", "number"],
)
def test_a_task_that_needs_pixis_shell_is_refused(tmp_path: Path, task: str, message: str) -> None:
    found = read(tmp_path, f"[tasks]\nbad = {task}\n")
    with pytest.raises(ConfigurationError, match=message):
        found.tasks("default")


def test_a_list_of_names_is_a_task_that_runs_them(tmp_path: Path) -> None:
    found = read(tmp_path, '[tasks]\nall = [{ task = "a", environment = "cpu" }, "b"]\n')
    assert found.tasks("default")["all"].depends == (("a", "cpu"), ("b", None))


def test_another_projects_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").write_text("[workspace]\n")
    with pytest.raises(ConfigurationError, match="is no smforge workspace"):
        manifest.find(None, tmp_path, tmp_path)
