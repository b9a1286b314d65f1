"""A run's folder and its checkpoint: two files that always belong together.

Both are written whole under a temporary name and reach the disk before either is renamed, and both
carry the same id. A kill between the two renames leaves the new model beside the old state and the
complete new state beside them: `load` sees the ids differ and finishes the rename.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import secrets
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as read_tensors
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from smforge import tiers
from smforge.errors import ConfigurationError

MODEL = "model.safetensors"
STATE = "state.pt"


def new_run(out: Path) -> Path:
    """Make and return `out/<UTC time>`; a second run of the same second gets a suffix."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    for suffix in ("", *(f"-{number}" for number in range(2, 100))):
        try:
            (run := out / f"{stamp}{suffix}").mkdir(parents=True)
        except FileExistsError:
            if out.is_dir():
                continue
            raise ConfigurationError(f"--out {out}: this is a file, not a folder") from None
        except OSError as error:
            raise ConfigurationError(
                f"no run can be kept in {out} ({error.strerror}): name a folder with --out DIR"
            ) from None
        return run
    raise ConfigurationError(f"{out} holds too many runs of this second")


def find_run(wanted: str, out: Path) -> Path:
    """The run to resume: the folder `wanted`, or the newest one in `out` with a checkpoint."""
    if wanted:
        if not (Path(wanted) / MODEL).exists():
            raise ConfigurationError(f"--resume {wanted}: there is no checkpoint in this folder")
        return Path(wanted)
    runs = sorted((p.parent for p in out.glob(f"*/{STATE}")), key=lambda run: run.name)
    if not runs:
        raise ConfigurationError(
            f"--resume: no run in {out} has a checkpoint; start one with {tiers.command('train')}"
        )
    return runs[-1]


def save(
    run: Path, model: dict[str, Tensor], state: dict[str, Any], config: dict[str, Any]
) -> None:
    """Replace the run's checkpoint with this one; OSError leaves the last one whole."""
    mark = f"{state['step']}-{secrets.token_hex(4)}"
    metadata = {"id": mark, "format": "pt", "config": json.dumps(config)}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.items()}
    # Through memory, since torch and safetensors hide a full disk behind errors of their own.
    buffer = io.BytesIO()
    torch.save({**state, "id": mark}, buffer)
    try:
        write(_new(run / MODEL), tensor_bytes(tensors, metadata))
        write(_new(run / STATE), buffer.getbuffer())
    except OSError:
        for name in (MODEL, STATE):
            _new(run / name).unlink(missing_ok=True)
        raise
    for name in (MODEL, STATE):
        _new(run / name).replace(run / name)
    _flush_folder(run)


def write(path: Path, content: bytes | memoryview) -> None:
    """Write a file so that it is on the disk when this returns."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def load(run: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the model's tensors and the state of one and the same step, all on the CPU.

    Raises:
        ConfigurationError: a file is missing or damaged, or the two do not belong together.
    """
    mark = _mark(run / MODEL)
    state = _state(run / STATE)
    if state["id"] != mark:
        newer = _new(run / STATE)
        if not newer.exists() or (state := _state(newer))["id"] != mark:
            raise ConfigurationError(f"{run}: {MODEL} and {STATE} are of different checkpoints")
        newer.replace(run / STATE)
    return read_tensors((run / MODEL).read_bytes()), state


def _mark(path: Path) -> str:
    try:
        with safe_open(path, "pt") as file:
            return str((file.metadata() or {})["id"])
    except (OSError, SafetensorError, KeyError) as error:
        raise _damaged(path, error) from None


def _state(path: Path) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():  # torch 2.0 warns of its own storages here
            warnings.filterwarnings("ignore", "TypedStorage is deprecated")
            state = torch.load(path, map_location="cpu", weights_only=True)
        return {**state, "id": state["id"]}
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> ConfigurationError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ConfigurationError(f"{path} is missing or no checkpoint of this program ({reason})")


def _new(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _flush_folder(folder: Path) -> None:
    """Make renames reach the disk; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
