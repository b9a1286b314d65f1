"""A prefix to activate, and bash to activate it in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.windows.wine import Shell

from .windows_bed import SCRIPTS, Machine

REPO = Path(__file__).resolve().parents[2]
SCRIPT = SCRIPTS / "activate.sh"
LOCK_HASH = "51698ef5b54028cb"
GCC = "bin/x86_64-conda-linux-gnu-"
TOOLKIT = (
    "bin/ptxas",
    "bin/nvcc",
    "targets/x86_64-linux/include/cuda.h",
    "targets/x86_64-linux/lib/libcudart.so",
)


@dataclass(frozen=True)
class Result:
    """What one bash that sourced activate.sh ended with."""

    returncode: int
    output: str
    variables: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.variables[name]


def program(path: Path) -> Path:
    """An executable file at this path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@dataclass
class Bed:
    """One stand-in machine: a prefix, a home, and folders for PATH."""

    root: Path
    prefix: Path = field(init=False)
    home: Path = field(init=False)
    bin: Path = field(init=False)
    script: Path = SCRIPT

    def __post_init__(self) -> None:
        self.prefix, self.home, self.bin = (self.root / n for n in ("env", "home", "system"))
        for folder in (self.prefix / "conda-meta", self.home, self.bin):
            folder.mkdir(parents=True)
        self.packages("cuda-version-12.9-h4f385c5_3")
        self.lock(LOCK_HASH)
        program(self.bin / "mkdir").write_text('#!/bin/sh\nexec /bin/mkdir "$@"\n')

    def packages(self, *names: str) -> None:
        for name in names:
            (self.prefix / "conda-meta" / f"{name}.json").write_text("{}")

    def lock(self, value: str) -> None:
        """conda-meta/pixi, as pixi 0.77 and the wheel engine write it."""
        record = {"manifest_path": "/w/pixi.toml", "environment_lock_file_hash": value}
        (self.prefix / "conda-meta" / "pixi").write_text(json.dumps(record, indent=2))

    def gcc(self, version: str = "14.3.0") -> None:
        """The compiler of the environment."""
        for name in ("gcc", "g++"):
            program(self.prefix / (GCC + name))
        self.packages(f"gcc_impl_linux-64-{version}-hdb7739f_5")

    def toolkit(self) -> None:
        for name in TOOLKIT:
            program(self.prefix / name)

    def system_gcc(self) -> None:
        for name in ("gcc", "g++"):
            program(self.bin / name)

    def environ(self, **variables: str) -> dict[str, str]:
        given = {"PATH": str(self.bin), "HOME": str(self.home), "CONDA_PREFIX": str(self.prefix)}
        return {k: v for k, v in (given | variables).items() if v}

    def go(
        self,
        before: str = "",
        after: str = "",
        times: int = 1,
        wrapper: Sequence[str] = (),
        **variables: str,
    ) -> Result:
        """Sources the script as pixi does. A variable given as "" is unset."""
        done = subprocess.run(
            [*wrapper, "/bin/bash", "-c", self.text(before, after, times)],
            env=self.environ(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd=self.root,
        )
        noise, _, dump = done.stdout.partition(b"\0==\0")
        values = dict(v.decode().split("=", 1) for v in dump.split(b"\0") if b"=" in v)
        return Result(done.returncode, (noise + done.stderr).decode(), values)

    def text(self, before: str, after: str, times: int) -> str:
        return "\n".join(
            [before, *[f". '{self.script}'"] * times, after, "printf '\\0==\\0'", "/usr/bin/env -0"]
        )


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path / "machine")


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A temporary folder with a short name: the length of paths is among what is tested."""
    with tempfile.TemporaryDirectory(prefix="s-") as folder:
        yield Path(folder)


@pytest.fixture
def machine(wine: Shell, short_path: Path) -> Machine:
    """A Windows machine with the Build Tools of Visual Studio 2022."""
    made = Machine(wine, short_path / "m")
    made.visual_studio()
    return made


@pytest.fixture
def bare(wine: Shell, short_path: Path) -> Machine:
    """A Windows machine without Visual Studio."""
    return Machine(wine, short_path / "m")


@pytest.fixture
def namespace() -> list[str]:
    """The command that gives bash a process namespace of its own, where pids count up by one."""
    tool = shutil.which("unshare")
    if tool is None:
        pytest.skip("no unshare here (util-linux)")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = [tool, *user, "--pid", "--fork"]
    probe = subprocess.run([*command, "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip(f"no process namespace can be made here: {probe.stderr.decode().strip()}")
    return command
