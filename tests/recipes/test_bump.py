"""Bumping triton-windows: nothing is guessed, comments stay, the result renders."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from smforge.channel import bump, command, recipes
from smforge.errors import ConfigurationError
from tests.recipes.conftest import RECIPES


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return shutil.copytree(RECIPES / "triton-windows", tmp_path / "triton-windows")


def versions(*extra: str) -> object:
    def of(python: str) -> Sequence[str]:
        return ["3.2.0.post21", "3.5.1.post24", "3.6.0.post26", "3.7.1.post27", *extra]

    return of


def sha256(version: str, python: str) -> str:
    return (version.replace(".", "").replace("post", "") + python.replace(".", "")).ljust(64, "0")


def write(change: bump.Bump) -> None:
    for path, text in change.files.items():
        path.write_text(text)


def test_nothing_newer_changes_nothing(recipe: Path) -> None:
    change = bump.plan(recipe, {}, versions=versions(), sha256=sha256)
    assert (change.files, change.unknown, change.diff()) == ({}, (), "")


def test_a_newer_wheel_of_a_known_minor_replaces_version_and_hash(recipe: Path) -> None:
    before = (recipe / "variants.yaml").read_text()
    change = bump.plan(recipe, {}, versions=versions("3.6.0.post27"), sha256=sha256)
    write(change)
    wheels = bump.read_variants(recipe / "variants.yaml")
    assert [w.version for w in wheels] == ["3.2.0.post21", "3.6.0.post27", "3.7.1.post27"]
    assert wheels[1].sha256 == sha256("3.6.0.post27", "3.11")
    assert "| 3.6.0.post27 | 3.11 | 2.10, 2.11 |" in (recipe / "README.md").read_text()
    comments = [line for line in before.splitlines() if line.startswith("#")]
    assert comments == [
        line for line in (recipe / "variants.yaml").read_text().splitlines() if line[:1] == "#"
    ]


def test_a_new_minor_without_a_pair_is_asked_for(recipe: Path) -> None:
    change = bump.plan(recipe, {}, versions=versions("3.9.0.post1"), sha256=sha256)
    assert change.unknown == ("3.9.0.post1",)
    assert not change.files


def test_a_new_minor_with_an_answer_is_added_and_renders(recipe: Path) -> None:
    answers = {"3.9": ("2.14", "2.15")}
    listed = versions("3.9.0.post1", "3.9.0.post2")
    change = bump.plan(recipe, answers, versions=listed, sha256=sha256)
    assert change.new_pairs == answers
    write(change)
    newest = recipes.render(recipe)[-1]
    assert (newest.version, newest.build) == ("3.9.0.post2", "py311_0")
    assert "pytorch >=2.14,<2.16a0" in newest.requirements["run_constraints"]
    assert "| 3.9.0.post2 | 3.11 | 2.14, 2.15 |" in (recipe / "README.md").read_text()


def test_versions_sort_as_numbers() -> None:
    assert sorted(["3.10.0.post1", "3.9.0.post10", "3.9.0.post9"], key=bump.order) == [
        "3.9.0.post9",
        "3.9.0.post10",
        "3.10.0.post1",
    ]


@pytest.mark.parametrize("pair", ["3.8", "3.8=", "3.8=2", "a.b=2.1", "3.8=2.14;2.15"])
def test_a_pair_that_is_none_is_refused(pair: str) -> None:
    with pytest.raises(ConfigurationError, match="expected something like"):
        command.answer(pair)


def test_a_pair_is_read() -> None:
    assert command.answer("3.8=2.14,2.15") == ("3.8", ("2.14", "2.15"))
