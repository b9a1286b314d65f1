"""pixiw with stubs of pixi, curl and Python: which engine, what is checked, what is left."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="pixiw is for sh; pixiw.bat is tested under Wine"
)
TOOLS = frozenset(
    {"sh", "cat", "chmod", "cmp", "cp", "cut", "dirname", "env", "find", "grep", "gzip"}
)
TOOLS |= {
    "id",
    "mkdir",
    "mv",
    "readlink",
    "rm",
    "sed",
    "sha256sum",
    "sleep",
    "tar",
    "timeout",
    "touch",
    "uname",
}
ASSET = {
    "Linux-x86_64": "pixi-x86_64-unknown-linux-musl.tar.gz",
    "Linux-aarch64": "pixi-aarch64-unknown-linux-musl.tar.gz",
    "Darwin-arm64": "pixi-aarch64-apple-darwin.tar.gz",
}.get(f"{platform.system()}-{platform.machine()}", "")
# Answers a HEAD request when $GITHUB_UP is set; else copies the release, noting that it did.
CURL = """\
for word; do [ "$word" = -fsI ] && { [ -n "${GITHUB_UP:-}" ]; exit; }; done
while [ "$1" != -o ]; do shift; done
echo "$3" >>"$BED/downloads"
[ -z "${CUT_OFF:-}" ] || { echo half >"$2"; exit 18; }
cp "$BED/release.tar.gz" "$2"
"""


@dataclass(frozen=True)
class Bed:
    """A workspace with pixiw, and a PATH that holds the stubs and the few real tools."""

    folder: Path

    @property
    def cache(self) -> Path:
        return self.folder / "cache" / "smforge" / "pixi-0.77.0"

    @property
    def recorded(self) -> str | None:
        file = self.folder / "w s" / ".smforge" / "engine"
        return file.read_text().strip() if file.exists() else None

    @property
    def downloads(self) -> list[str]:
        file = self.folder / "downloads"
        return file.read_text().splitlines() if file.exists() else []

    def stub(self, name: str, body: str) -> None:
        """A program of that name on PATH."""
        file = self.folder / "bin" / name
        file.unlink(missing_ok=True)
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)

    def run(
        self, *words: str, program: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        environ = {
            "PATH": str(self.folder / "bin"),
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "BED": str(self.folder),
            **variables,
        }
        return subprocess.run(
            ["/bin/sh", program or self.folder / "w s" / "pixiw", *words],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


def release(file: Path, program: str = 'echo "pinned pixi: $*"') -> str:
    """A release archive with one file, `pixi`; its sha256."""
    content = f"#!/bin/sh\n{program}\n".encode()
    with tarfile.open(file, "w:gz") as archive:
        member = tarfile.TarInfo("pixi")
        member.size, member.mode = len(content), 0o755
        archive.addfile(member, io.BytesIO(content))
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    if not ASSET:
        pytest.skip("pixi has no release for this system")
    bed = Bed(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found, name
        (tmp_path / "bin" / name).symlink_to(found)
    (tmp_path / "w s" / "envs").mkdir(parents=True)
    shutil.copy(ROOT / "pixiw", tmp_path / "w s")
    sha256 = release(tmp_path / "release.tar.gz")
    (tmp_path / "w s" / "envs" / "pixi.txt").write_text(f"# comment\n{ASSET} {sha256}\n")
    bed.stub("curl", CURL)
    bed.stub("python3", '[ "$1" = -c ] || { shift; echo "wheel engine: $*"; }')
    return bed


@pytest.mark.parametrize("version", ["0.77.0", "0.100.2", "1.0.0"])
def test_a_pixi_on_path_that_is_new_enough_is_used(bed: Bed, version: str) -> None:
    bed.stub("pixi", f'[ "$1" = --version ] && echo "pixi {version}" || echo "own pixi: $*"')
    done = bed.run("run", "train", "a b")
    assert (done.stdout, done.stderr) == ("own pixi: run train a b\n", "")
    assert bed.recorded is None


@pytest.mark.parametrize("version", ["0.76.9", "0.9.0", "nonsense", ""])
def test_an_older_pixi_on_path_is_not_used(bed: Bed, version: str) -> None:
    bed.stub("pixi", f'[ "$1" = --version ] && echo "pixi {version}" || echo own')
    assert bed.run("run", "train").stdout == "wheel engine: run train\n"


def test_without_pixi_the_pinned_release_is_fetched_once(bed: Bed) -> None:
    first = bed.run("run", "train", GITHUB_UP="1")
    assert first.stdout == "pinned pixi: run train\n"
    assert bed.recorded == "pixi"
    second = bed.run("run", "which")
    assert (second.stdout, second.stderr) == ("pinned pixi: run which\n", "")
    url = f"https://github.com/prefix-dev/pixi/releases/download/v0.77.0/{ASSET}"
    assert bed.downloads == [url]
    assert bed.cache.stat().st_mode & 0o777 == 0o700


def test_without_github_the_wheel_engine_runs_and_says_so_once(bed: Bed) -> None:
    first = bed.run("run", "train", "--steps", "3")
    assert first.stdout == "wheel engine: run train --steps 3\n"
    assert "using the wheel engine" in first.stderr
    assert bed.recorded == "wheels"
    assert bed.run("run", "train", GITHUB_UP="1").stderr == ""


def test_install_looks_again(bed: Bed) -> None:
    bed.run("run", "train")
    assert bed.run("install", GITHUB_UP="1").stdout == "pinned pixi: install\n"
    assert bed.recorded == "pixi"


def test_a_download_with_another_hash_is_refused_and_not_kept(bed: Bed) -> None:
    release(bed.folder / "release.tar.gz", 'touch "$BED/executed"')
    done = bed.run("run", "train", GITHUB_UP="1")
    assert done.returncode == 4
    assert "expected" in done.stderr
    assert list(bed.cache.iterdir()) == []
    assert not (bed.folder / "executed").exists()
    assert bed.recorded is None


def test_a_download_that_breaks_off_leaves_nothing(bed: Bed) -> None:
    done = bed.run("run", "train", GITHUB_UP="1", CUT_OFF="1")
    assert done.returncode == 4
    assert "could not be fetched" in done.stderr
    assert list(bed.cache.iterdir()) == []


@pytest.mark.parametrize("changed", ["pixi", ASSET], ids=["program", "archive"])
def test_a_program_or_archive_changed_later_is_found_before_it_runs(bed: Bed, changed: str) -> None:
    bed.run("run", "train", GITHUB_UP="1")
    (bed.cache / changed).write_text('#!/bin/sh\ntouch "$BED/executed"\n')
    done = bed.run("run", "train")
    assert done.returncode == 4
    assert done.stderr.startswith("pixiw: error: ")
    assert done.stderr.count("\n") == 1
    assert list(bed.cache.iterdir()) == []
    assert not (bed.folder / "executed").exists()
    assert bed.run("run", "train", GITHUB_UP="1").stdout == "pinned pixi: run train\n"


def test_a_cache_that_others_can_write_is_refused(bed: Bed) -> None:
    bed.run("run", "train", GITHUB_UP="1")
    bed.cache.chmod(0o777)
    done = bed.run("run", "train")
    assert done.returncode == 4
    assert "can be written by others" in done.stderr


def test_the_engine_can_be_chosen(bed: Bed) -> None:
    bed.stub("pixi", '[ "$1" = --version ] && echo "pixi 0.77.1" || echo "own pixi: $*"')
    assert bed.run("info", SMFORGE_ENGINE="wheels").stdout == "wheel engine: info\n"
    assert bed.run("info", SMFORGE_ENGINE="pixi").stdout == "own pixi: info\n"
    assert bed.recorded is None


def test_pixi_by_choice_without_github_is_exit_4(bed: Bed) -> None:
    done = bed.run("info", SMFORGE_ENGINE="pixi")
    assert done.returncode == 4
    assert "GitHub does not answer" in done.stderr


def test_an_unknown_engine_is_exit_2(bed: Bed) -> None:
    done = bed.run("info", SMFORGE_ENGINE="conda")
    assert done.returncode == 2
    assert done.stderr == "pixiw: error: SMFORGE_ENGINE is 'conda', expected pixi or wheels\n"


def test_no_usable_python_is_exit_4_with_the_command_that_installs_one(bed: Bed) -> None:
    bed.stub("python3", "exit 1")
    bed.stub("apt-get", "exit 1")
    done = bed.run("run", "train")
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1].endswith("apt-get install python3 python3-venv")


def test_the_next_python_is_tried(bed: Bed) -> None:
    bed.stub("python3", "exit 1")
    bed.stub("python3.12", '[ "$1" = -c ] || { shift; echo "from 3.12: $*"; }')
    assert bed.run("run", "x").stdout == "from 3.12: run x\n"


def test_the_exit_code_is_the_engines(bed: Bed) -> None:
    bed.stub("python3", '[ "$1" = -c ] || exit 5')
    assert bed.run("run", "x").returncode == 5


def test_a_checkout_that_cannot_be_written_still_runs(bed: Bed) -> None:
    if os.geteuid() == 0:
        (bed.folder / "w s" / ".smforge").touch()  # root writes everywhere: a file in its place
    else:
        (bed.folder / "w s").chmod(0o555)
    done = bed.run("run", "x")
    (bed.folder / "w s").chmod(0o755)
    assert done.stdout == "wheel engine: run x\n"
    assert done.stderr.count("\n") == 1


def test_links_to_it_are_followed_to_its_own_workspace(bed: Bed) -> None:
    (bed.folder / "away").mkdir()
    (bed.folder / "away" / "relative").symlink_to("../w s/pixiw")
    (bed.folder / "linked").symlink_to(bed.folder / "away" / "relative")
    assert bed.run("run", "x", program=bed.folder / "linked").stdout == "wheel engine: run x\n"
    assert bed.recorded == "wheels"


def test_missing_pins_are_one_line_and_exit_2(bed: Bed) -> None:
    (bed.folder / "w s" / "envs" / "pixi.txt").unlink()
    done = bed.run("run", "x", GITHUB_UP="1")
    assert done.returncode == 2
    assert done.stderr == f"pixiw: error: envs/pixi.txt names no sha256 for {ASSET}\n"


def test_wget_serves_where_there_is_no_curl(bed: Bed) -> None:
    (bed.folder / "bin" / "curl").unlink()
    bed.stub(
        "wget",
        'for word; do [ "$word" = --spider ] && exit 0; done\ncp "$BED/release.tar.gz" "$2"',
    )
    assert bed.run("run", "x").stdout == "pinned pixi: run x\n"


def test_a_server_that_does_not_answer_costs_three_seconds(bed: Bed) -> None:
    (bed.folder / "bin" / "curl").unlink()
    bed.stub("wget", "sleep 600")
    done = bed.run("run", "x")
    assert done.stdout == "wheel engine: run x\n"


def test_every_release_has_its_hash() -> None:
    lines = (ROOT / "envs" / "pixi.txt").read_text().splitlines()[1:]
    assert all(re.fullmatch(r"pixi-[\w.-]+ [0-9a-f]{64}", line) for line in lines)
    script = (ROOT / "pixiw").read_text() + (ROOT / "pixiw.bat").read_text()
    assert all(line.split()[0] in script for line in lines)


def test_both_wrappers_name_the_same_version() -> None:
    versions = [
        re.search(r"version=(\d+\.\d+\.\d+)", (ROOT / name).read_text())
        for name in ("pixiw", "pixiw.bat")
    ]
    assert [found and found[1] for found in versions] == ["0.77.0", "0.77.0"]


def test_pixiw_bat_keeps_to_the_style_that_wine_and_windows_agree_on() -> None:
    text = (ROOT / "pixiw.bat").read_bytes()
    assert text.isascii()
    lines = text.decode().splitlines()
    assert lines[0] == "@echo off"
    code = [line for line in lines if not line.startswith("rem ")]
    assert not [line for line in code if "&&" in line or "||" in line]
    words = [line for line in code if "echo" not in line]
    assert not [line for line in words if re.search(r'\bset (?!")', line)]
    labels = {line[1:] for line in code if line.startswith(":")}
    jumps = re.findall(r"(?:goto |call :)(\w+)", "\n".join(code))
    assert set(jumps) <= labels
