"""The maintainers' tool environment: envs/tools/base.txt on top of the running environment.

`lock`, `audit`, `channel`, `test` and others need packages that no tier holds (py-rattler, ...).
They run again in a virtual environment of those packages that also sees the running one's.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from smforge import tables, venvs
from smforge.errors import ConfigurationError
from smforge.venvs import say

_KIND = "tools"
_INSIDE = "SMFORGE_TOOLS"  # names the environment to the processes that run in it


def in_tool_environment() -> bool:
    """Whether this process already runs in the tool environment."""
    return os.environ.get(_INSIDE) == sys.prefix


def run_in_tool_environment(argv: Sequence[str]) -> int:
    """Run `python ARGV` in the tool environment, made first if need be; its exit code.

    `argv` is what follows the interpreter, such as ["-m", "smforge", "lock", "--check"]. Raises
    ConfigurationError outside a workspace, ToolchainError where the environment cannot be made.
    """
    folder = tool_environment()
    command = [str(venvs.python_of(folder)), *argv]
    return subprocess.run(command, env=_environ(folder), check=False).returncode


def tool_environment() -> Path:
    """Folder of the tool environment for the running Python, complete: this one's inside it."""
    if in_tool_environment():
        return Path(sys.prefix)
    requirements = _requirements("base")
    version = sys.version.split()[0]
    key = f"{_digest(requirements)} {sys.prefix} {version}"
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    folder = venvs.place(tables.workspace(), _KIND, name)

    def build(folder: Path) -> None:
        say(f"building the tool environment {folder} from envs/tools/base.txt")
        venvs.create(folder, Path(sys.executable))
        log = folder.with_name(f"{name}.log")
        venvs.pip_install(venvs.python_of(folder), requirements, log)
        _see_parent(folder)

    venvs.build_once(folder, build)
    return folder


def tool_packages(name: str) -> Path:
    """Folder with the packages of envs/tools/NAME.txt, for a child process's PYTHONPATH alone.

    They are never mixed into an environment: they are other Tritons, NVRTC, or (`windows-*`)
    wheels for win_amd64, for the Python that the file's line `# python-version: 3.12` names.
    """
    requirements = _requirements(name)
    target = packages_folder(name)
    python = venvs.python_of(tool_environment())

    def build(target: Path) -> None:
        say(f"fetching envs/tools/{name}.txt into {target}")
        options = ["--target", str(target), *_foreign(name, requirements)]
        venvs.pip_install(python, requirements, target.with_name(f"{target.name}.log"), *options)

    venvs.build_once(target, build)
    return target


def packages_folder(name: str) -> Path:
    """Where `tool_packages(name)` puts them, there or not."""
    digest = _digest(_requirements(name))[:16]
    return venvs.place(tables.workspace(), _KIND, f"{name}-{digest}")


def _requirements(name: str) -> Path:
    file = tables.workspace() / "envs" / "tools" / f"{name}.txt"
    if not file.is_file():
        raise ConfigurationError(
            f"envs/tools/{name}.txt is missing: this needs a checkout of smforge's repository"
        )
    return file


def _digest(requirements: Path) -> str:
    return hashlib.sha256(requirements.read_bytes()).hexdigest()


def _foreign(name: str, requirements: Path) -> list[str]:
    if not name.startswith("windows-"):
        return []
    version = foreign_python(requirements)
    return ["--platform", "win_amd64", "--implementation", "cp", "--python-version", version]


def foreign_python(requirements: Path) -> str:
    """The Python that a windows-*.txt pins wheels for, as "3.11"; raises ConfigurationError."""
    text = requirements.read_text("utf-8")
    version = re.search(r"^# python-version: (\S+)$", text, re.MULTILINE)
    if version is None:
        file = f"envs/tools/{requirements.name}"
        raise ConfigurationError(f"{file} lacks a line `# python-version: 3.12`")
    return version[1]


def _see_parent(folder: Path) -> None:
    """Let the environment see this one's packages: a venv made from a venv would not."""
    parents = dict.fromkeys(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))
    lines = [f"import site; site.addsitedir({path!a})" for path in parents]
    if sys.platform == "win32":
        own = folder / "Lib" / "site-packages"
    else:
        own = next((folder / "lib").glob("python*/site-packages"))
    (own / "_parent.pth").write_text("\n".join(lines) + "\n", "ascii")


def _environ(folder: Path) -> dict[str, str]:
    programs = str(venvs.python_of(folder).parent)
    path = programs + os.pathsep + os.environ.get("PATH", os.defpath)
    package = str(Path(__file__).resolve().parents[1])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    search = os.pathsep.join([package, *(entry for entry in known if entry not in ("", package))])
    return os.environ | {"PATH": path, "PYTHONPATH": search, _INSIDE: str(folder)}
