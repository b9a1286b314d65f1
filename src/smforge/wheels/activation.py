"""The environment variables of a task: what pixi's activation gives, from the same scripts."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from smforge.errors import ToolchainError
from smforge.venvs import python_of, say
from smforge.wheels.manifest import DEFAULT, Manifest
from smforge.wheels.stack import Stack

_SEPARATOR = "____SMFORGE_ENVIRONMENT____"


def variables(manifest: Manifest, stack: Stack, prefix: Path) -> dict[str, str]:
    """All variables for a task, in pixi's order: PATH, CONDA_*, PIXI_*, scripts, activation.env.

    As with pixi, a variable that a script unsets stays as it was outside.
    """
    environ = _base(manifest, stack, prefix)
    present = []
    for script in manifest.scripts(stack.environment, stack.platform):
        if (manifest.root / script).is_file():
            present.append(manifest.root / script)
        else:
            say(f"warning: activation script {script} is missing")
    if present:
        environ |= _changes(present, environ)
    environ |= manifest.variables(stack.environment, stack.platform)
    if stack.wheels:
        environ["SMFORGE_WHEELS"] = stack.wheels
    return environ


def _base(manifest: Manifest, stack: Stack, prefix: Path) -> dict[str, str]:
    programs = str(python_of(prefix).parent)
    path = os.environ.get("PATH", os.defpath)
    workspace = manifest.data.get("workspace", {})
    name = workspace.get("name", manifest.root.name)
    suffix = "" if stack.environment == DEFAULT else f":{stack.environment}"
    dropped = ("PYTHONHOME", "SMFORGE_WHEELS", "SMFORGE_TIER")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {
        "PATH": path if path.startswith(programs + os.pathsep) else programs + os.pathsep + path,
        "CONDA_SHLVL": "1",
        "CONDA_PREFIX": str(prefix),
        "CONDA_DEFAULT_ENV": name + suffix,
        "VIRTUAL_ENV": str(prefix),
        "PIXI_PROJECT_ROOT": str(manifest.root),
        "PIXI_PROJECT_NAME": name,
        "PIXI_PROJECT_MANIFEST": str(manifest.path),
        "PIXI_PROJECT_VERSION": workspace.get("version", "NO_VERSION_SPECIFIED"),
        "PIXI_ENVIRONMENT_NAME": stack.environment,
        "PIXI_ENVIRONMENT_PLATFORMS": ",".join(manifest.platforms(stack.environment)),
        "INIT_CWD": str(Path.cwd()),
    }


def _changes(scripts: list[Path], environ: dict[str, str]) -> dict[str, str]:
    """Variables that the scripts added or changed; ToolchainError if the shell itself failed."""
    with tempfile.TemporaryDirectory(prefix="smforge-") as folder:
        run = _run_cmd if sys.platform == "win32" else _run_bash
        done = run(Path(folder), scripts, environ)
    # What scripts print lies between the separators and is dropped, as pixi does.
    parts = done.stdout.split(_SEPARATOR.encode())
    if done.returncode or len(parts) < 3:
        detail = done.stderr.decode("utf-8", "replace").strip().splitlines()
        names = ", ".join(script.name for script in scripts)
        raise ToolchainError(
            f"activation ({names}) failed with status {done.returncode}: "
            f"{detail[-1] if detail else 'it said nothing'}"
        )
    before, after = _parse(parts[0]), _parse(parts[-1])
    return {name: value for name, value in after.items() if before.get(name) != value}


def _run_bash(
    folder: Path, scripts: list[Path], environ: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    bash = shutil.which("bash")
    if bash is None:
        raise ToolchainError("activation scripts need bash: install it (apt-get install bash)")
    lines = ["env -0", f"printf %s {_SEPARATOR}"]
    lines += [f". {shlex.quote(str(script))}" for script in scripts]
    lines += [f"printf %s {_SEPARATOR}", "env -0"]
    file = folder / "activation.sh"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return subprocess.run([bash, file], env=environ, capture_output=True, check=False)


def _run_cmd(
    folder: Path, scripts: list[Path], environ: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    # Paths reach the batch file in variables: cmd reads a file's own text in the code page of the
    # moment, a variable's in Unicode.
    names = {f"_SMFORGE_SCRIPT{i}": str(script) for i, script in enumerate(scripts)}
    lines = ["@echo off", "chcp 65001 >nul", "set", f"echo {_SEPARATOR}"]
    lines += [f'call "%{name}%"' for name in names]
    lines += [f"echo {_SEPARATOR}", "set"]
    file = folder / "activation.bat"
    file.write_bytes("\r\n".join([*lines, ""]).encode("ascii"))
    shell = os.environ.get("COMSPEC", "cmd.exe")
    return subprocess.run(
        [shell, "/D", "/C", str(file)], env=environ | names, capture_output=True, check=False
    )


def _parse(text: bytes) -> dict[str, str]:
    """NAME=VALUE records: between NULs (env -0), or a line each (cmd's set)."""
    decoded = text.decode("utf-8", "surrogateescape")
    records = decoded.split("\0") if "\0" in decoded else decoded.splitlines()
    pairs = (record.partition("=") for record in records)
    return {_key(name): value for name, equals, value in pairs if name and equals}


def _key(name: str) -> str:
    """The name as os.environ has it: Windows does not tell Path from PATH."""
    return name.upper() if sys.platform == "win32" else name
