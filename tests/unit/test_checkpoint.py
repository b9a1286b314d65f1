"""Checkpoints: two files of one step, whatever happens while they are written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from smforge import checkpoint
from smforge.errors import ConfigurationError


def content(step: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    moments = {"exp_avg": torch.full((3,), float(step))}
    return {"w": torch.full((3,), float(step))}, {"step": step, "optimizer": {0: moments}}


def save(run: Path, step: int) -> None:
    checkpoint.save(run, *content(step), config={"layers": 1})


def loaded_step(run: Path) -> int:
    """The step of a run's checkpoint, once both files agree on it."""
    model, state = checkpoint.load(run)
    assert model["w"][0] == state["step"] == state["optimizer"][0]["exp_avg"][0]
    return int(state["step"])


class Killed(BaseException):
    """Stands for a kill: nothing of the program runs after it."""


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    save(tmp_path, 3)
    assert loaded_step(tmp_path) == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.safetensors", "state.pt"]


def test_the_model_opens_with_safetensors_and_names_its_shape(tmp_path: Path) -> None:
    save(tmp_path, 3)
    assert torch.equal(load_file(tmp_path / "model.safetensors")["w"], torch.full((3,), 3.0))
    assert b"layers" in (tmp_path / "model.safetensors").read_bytes()[:500]


def test_the_state_is_loadable_with_weights_only(tmp_path: Path) -> None:
    save(tmp_path, 3)
    assert torch.load(tmp_path / "state.pt", weights_only=True)["step"] == 3


@pytest.mark.parametrize("renames", [0, 1, 2], ids=["before", "between", "after"])
def test_a_kill_around_the_renames_leaves_one_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    save(tmp_path, 1)
    rename, done = Path.replace, []

    def die(self: Path, target: Path) -> Path:
        if len(done) == renames:
            raise Killed
        done.append(target)
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        patch.setattr(checkpoint, "_flush_folder", lambda folder: die(folder, folder))
        with pytest.raises(Killed):
            save(tmp_path, 2)
    assert loaded_step(tmp_path) == (1 if renames == 0 else 2)
    assert loaded_step(tmp_path) == (1 if renames == 0 else 2)
    save(tmp_path, 3)
    assert loaded_step(tmp_path) == 3


@pytest.mark.parametrize("name", ["model.safetensors.new", "state.pt.new"])
def test_half_a_new_file_does_not_hide_the_old_checkpoint(tmp_path: Path, name: str) -> None:
    save(tmp_path, 1)
    (tmp_path / name).write_bytes(b"cut off")
    assert loaded_step(tmp_path) == 1


@pytest.mark.parametrize("fails", [1, 2], ids=["model", "state"])
def test_a_full_disk_leaves_the_last_checkpoint_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    save(tmp_path, 1)
    calls: list[int] = []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, 2)
    assert loaded_step(tmp_path) == 1
    assert not list(tmp_path.glob("*.new"))


def test_files_of_different_checkpoints_are_refused(tmp_path: Path) -> None:
    for step in (1, 2):
        (tmp_path / str(step)).mkdir()
        save(tmp_path / str(step), step)
    (tmp_path / "1" / "state.pt").write_bytes((tmp_path / "2" / "state.pt").read_bytes())
    with pytest.raises(ConfigurationError, match="are of different checkpoints"):
        checkpoint.load(tmp_path / "1")


@pytest.mark.parametrize("name", ["model.safetensors", "state.pt"])
@pytest.mark.parametrize("damage", [b"", b"not a checkpoint"], ids=["empty", "foreign"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, damage: bytes) -> None:
    save(tmp_path, 1)
    (tmp_path / name).write_bytes(damage)
    with pytest.raises(ConfigurationError, match=f"{name} is missing or no checkpoint"):
        checkpoint.load(tmp_path)


def test_a_state_that_would_run_code_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 1)
    torch.save({"id": Path("anything that is no tensor")}, tmp_path / "state.pt")
    with pytest.raises(ConfigurationError, match=r"state\.pt is missing or no checkpoint"):
        checkpoint.load(tmp_path)


def test_two_runs_of_one_second_get_two_folders(tmp_path: Path) -> None:
    assert checkpoint.new_run(tmp_path / "runs") != checkpoint.new_run(tmp_path / "runs")


def test_a_folder_that_cannot_be_written_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ConfigurationError, match=r"Permission denied\): .*--out DIR"):
        checkpoint.new_run(tmp_path / "runs")


def test_a_file_in_place_of_the_folder_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(ConfigurationError, match="--out"):
        checkpoint.new_run(tmp_path / "runs")


def test_resume_takes_the_newest_run_that_has_a_checkpoint(tmp_path: Path) -> None:
    for name in ("2026-01-01T00-00-00Z", "2026-01-02T00-00-00Z", "2026-01-03T00-00-00Z"):
        (tmp_path / name).mkdir()
    save(tmp_path / "2026-01-01T00-00-00Z", 1)
    save(tmp_path / "2026-01-02T00-00-00Z", 2)
    assert checkpoint.find_run("", tmp_path).name == "2026-01-02T00-00-00Z"


def test_resume_without_any_run_names_the_command_that_starts_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no run in .* start one with .*train"):
        checkpoint.find_run("", tmp_path)


def test_resume_of_a_folder_without_checkpoint_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no checkpoint in this folder"):
        checkpoint.find_run(str(tmp_path), tmp_path)
