"""Workspaces for the lock tests. Whatever solves runs in a process of its own: py-rattler can crash
an interpreter that exits after a solve, and this must not be pytest's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

REFERENCE = ROOT / "tests" / "data" / "pixi-0.77"
CHANNEL = ROOT / "tests" / "data" / "conda-forge"


def environ() -> dict[str, str]:
    """This process's environment, with the package found and no colours."""
    return os.environ | {"PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "COLUMNS": "300"}


def smforge(*words: object) -> subprocess.CompletedProcess[str]:
    """`python -m smforge WORDS`."""
    command = [sys.executable, "-m", "smforge", *map(str, words)]
    return subprocess.run(command, env=environ(), capture_output=True, text=True, check=False)


def lock(workspace: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """`smforge lock WORDS` on a workspace."""
    return smforge("lock", "--manifest-path", workspace, *words)


def reference(folder: Path) -> Path:
    """A writable copy of the workspace that pixi 0.77 locked."""
    return Path(shutil.copytree(REFERENCE, folder / "workspace"))


def committed(folder: Path) -> Path:
    """A writable copy of this workspace's pixi.toml, pixi.lock and recipes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("pixi.toml", "pixi.lock"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    return folder


def tiny(folder: Path, dependencies: str = 'numpy = "2.*"\npython = "3.12.*"') -> Path:
    """A workspace of one environment on linux-64 that solves in a moment."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pixi.toml").write_text(
        '[workspace]\nname = "tiny"\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n'
        f"[dependencies]\n{dependencies}\n",
        "utf-8",
    )
    return folder


def replace_in(path: Path, old: str, new: str) -> None:
    """Replace a text that has to be there, once."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
