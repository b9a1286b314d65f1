"""Build the virtual environment of a stack, once, and describe it in conda-meta/pixi."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from smforge import __version__, venvs
from smforge.errors import ToolchainError
from smforge.venvs import say
from smforge.wheels import interpreters
from smforge.wheels.manifest import Manifest
from smforge.wheels.stack import Stack


def folder_of(manifest: Manifest, stack: Stack) -> Path:
    """Where the environment of a stack lies, built or not."""
    return venvs.place(manifest.root, "envs", stack.folder_name)


def prepare(manifest: Manifest, stack: Stack) -> Path:
    """The environment's folder, complete; says what it downloads before it does.

    Raises ToolchainError when it cannot be built; the next start then begins it anew, with what
    pip has in its cache.
    """
    folder = folder_of(manifest, stack)

    def build(folder: Path) -> None:
        python, version = interpreters.find(*stack.python)
        _announce(stack, folder, version)
        venvs.create(folder, python)
        log = folder.with_name(f"{folder.name}.log")
        venvs.pip_install(venvs.python_of(folder), stack.requirements, log)
        _describe(folder, manifest, stack)

    if venvs.build_once(folder, build):
        say(f"environment ready: {folder}")
        _name_unused(folder)
    return folder


def _announce(stack: Stack, folder: Path, version: str) -> None:
    if stack.wheels:
        say(
            f"this is the wheel engine, not pixi: the same tasks with torch {stack.wheels} from "
            "PyPI, every wheel pinned by sha256"
        )
        say(f"tier {stack.tier}: {stack.reason}")
    size = stack.download_size(version)
    about = _shown(size) if size else "an amount not measured for this Python"
    say(f"Python {version}; downloading {about}, less what pip has cached, into {folder}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if size and free < size:
        raise ToolchainError(f"{folder.parent} has {_shown(free)} free, {_shown(size)} are needed")
    if not venvs.is_plain(folder):
        say(
            "this path has a blank or a letter outside ASCII, and torch.compile's C++ compiler "
            "fails below such a path: set XDG_CACHE_HOME (Windows: LOCALAPPDATA) to a plain one"
        )


def _shown(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"


def _describe(folder: Path, manifest: Manifest, stack: Stack) -> None:
    """Write what activation scripts and doctor read in a prefix, a key a line as pixi does."""
    content = {
        "manifest_path": str(manifest.path),
        "environment_name": stack.environment,
        "pixi_version": f"smforge wheel engine {__version__}",
        "environment_lock_file_hash": stack.digest,
        "resolved_platform": {
            "subdir": stack.subdir,
            "virtual_packages": list(stack.virtual_packages),
        },
    }
    meta = folder / "conda-meta"
    meta.mkdir()
    (meta / "pixi").write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def _name_unused(folder: Path) -> None:
    """Name earlier builds of the same environment; they are the user's to remove."""
    if folder.parent.parent.name != ".smforge":
        return  # the per-user cache: another workspace may use them
    kind = folder.name.rpartition("-")[0]
    for other in sorted(folder.parent.glob(f"{kind}-*/")):
        if other != folder and venvs.is_complete(other):
            say(f"no longer used, remove it when you like: {other}")
