"""pixiw.bat under Wine, with stand-ins for curl, certutil and pixi."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from smforge.wine.prefix import windows_path
from tests.conftest import ROOT

from .python import Interpreter
from .wine import Result, Shell

ASSET = "pixi-x86_64-pc-windows-msvc.exe"


@dataclass
class Bed:
    """A checkout with pixiw.bat, and a machine with curl and certutil."""

    wine: Shell
    root: Path

    def __post_init__(self) -> None:
        self.checkout, self.tools = self.root / "check (x86) out", self.root / "tools"
        self.profile = self.root / "profile"
        for folder in (self.checkout / "envs", self.tools, self.profile):
            folder.mkdir(parents=True)
        shutil.copy(ROOT / "pixiw.bat", self.checkout)
        for name in ("curl", "certutil"):
            shutil.copy(self.wine.program(name), self.tools / f"{name}.exe")
        content = self.wine.program("pixi").read_bytes()
        (self.tools / "download.bin").write_bytes(content)
        self.pin(hashlib.sha256(content).hexdigest())

    def pin(self, sha256: str) -> None:
        (self.checkout / "envs/pixi.txt").write_text(f"{ASSET} {sha256}\n")

    def online(self) -> None:
        (self.tools / "answers.txt").touch()

    @property
    def fetched(self) -> int:
        """How often curl was asked for the file itself."""
        log = self.tools / "curl.log"
        return log.read_text().count("--progress-bar") if log.exists() else 0

    @property
    def kept(self) -> list[str]:
        return sorted(path.name for path in self.profile.rglob("*") if path.is_file())

    @property
    def engine(self) -> str:
        record = self.checkout / ".smforge/engine"
        return record.read_text().strip() if record.exists() else ""

    def run(self, *words: str, path: Path | None = None, **variables: str) -> Result:
        folders = [str(f) for f in (self.tools, path) if f]
        system = "C:\\windows\\system32;C:\\windows"
        given = {
            "PATH": ";".join([*map(windows_path, folders), system]),
            "LOCALAPPDATA": windows_path(self.profile),
            "SMFORGE_ENGINE": "",
            **variables,
        }
        # Not called: Wine's `call` turns every exit code into 1.
        line = f'"{windows_path(self.checkout)}\\pixiw.bat" {" ".join(words)}'
        return self.wine.cmd(line, given, folder=self.root)


@pytest.fixture
def bed(wine: Shell, tmp_path: Path) -> Bed:
    return Bed(wine, tmp_path / "b")


def test_the_first_start_fetches_the_pinned_pixi_and_later_ones_use_it(bed: Bed) -> None:
    bed.online()
    for _ in range(2):
        result = bed.run("run", '"a b"', "c")
        answer = (7, "pixi 0.77.0: [run] [a b] [c]\n")
        assert (result.returncode, result.stdout) == answer, result.stderr
    assert (bed.fetched, bed.engine, bed.kept) == (1, "pixi", [ASSET])


def test_another_hash_is_removed_and_never_run(bed: Bed) -> None:
    bed.online()
    bed.pin("0" * 64)
    result = bed.run("run", "x")
    assert (result.returncode, result.stdout) == (4, "")
    assert f"expected {'0' * 64}" in result.stderr
    assert bed.kept == []


def test_no_hash_at_all_is_another_hash(bed: Bed) -> None:
    bed.online()
    (bed.tools / "silent.txt").touch()
    result = bed.run("run", "x")
    assert (result.returncode, result.stdout, bed.kept) == (4, "", [])


def test_no_pin_and_no_hash_do_not_agree(bed: Bed) -> None:
    bed.online()
    (bed.tools / "silent.txt").touch()
    (bed.checkout / "envs/pixi.txt").write_text("# nothing\n")
    result = bed.run("run", "x")
    assert (result.returncode, result.stdout, bed.kept) == (4, "", [])


def test_a_kept_pixi_that_was_changed_is_removed_and_never_run(bed: Bed) -> None:
    bed.online()
    bed.run("run", "x")
    (kept,) = bed.profile.rglob(ASSET)
    kept.write_bytes(kept.read_bytes() + b"x")
    result = bed.run("run", "x")
    assert (result.returncode, result.stdout, bed.kept) == (4, "", [])


def test_a_new_enough_pixi_on_PATH_is_used(bed: Bed) -> None:
    folder = bed.root / "own"
    folder.mkdir()
    shutil.copy(bed.wine.program("pixi"), folder / "pixi.exe")
    (folder / "version.txt").write_text("0.80.1")
    result = bed.run("run", "x", path=folder)
    assert (result.returncode, result.stdout) == (7, "pixi 0.80.1: [run] [x]\n")
    assert bed.fetched == 0


def test_an_old_pixi_on_PATH_is_not_used(bed: Bed) -> None:
    bed.online()
    folder = bed.root / "own"
    folder.mkdir()
    shutil.copy(bed.wine.program("pixi"), folder / "pixi.exe")
    (folder / "version.txt").write_text("0.76.9")
    assert bed.run("run", "x", path=folder).stdout == "pixi 0.77.0: [run] [x]\n"


def test_without_an_answer_the_wheel_engine_starts(bed: Bed, windows_python: Interpreter) -> None:
    (bed.checkout / "src").symlink_to(ROOT / "src")
    result = bed.run("--version", path=windows_python.folder)
    assert (result.returncode, bed.engine) == (0, "wheels"), result.stderr
    assert "smforge wheel engine" in result.stdout
    assert "using the wheel engine" in result.stderr


def test_without_an_answer_or_a_python_it_says_what_to_install(bed: Bed) -> None:
    result = bed.run("run", "x")
    assert (result.returncode, result.stdout) == (4, "")
    assert "winget install Python.Python" in result.stderr


def test_pixi_asked_for_without_an_answer_is_an_error(bed: Bed) -> None:
    result = bed.run("run", "x", SMFORGE_ENGINE="pixi")
    assert (result.returncode, result.stdout) == (4, "")
    assert "GitHub does not answer" in result.stderr


def test_an_engine_that_is_none_is_a_configuration_error(bed: Bed) -> None:
    assert bed.run("run", "x", SMFORGE_ENGINE="conda").returncode == 2
