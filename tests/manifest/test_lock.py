"""The committed pixi.lock: what pixi.toml asks for, audited, and closed in itself."""

from __future__ import annotations

import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from smforge import tiers
from tests.conftest import ROOT
from tests.manifest.lockspace import CHANNEL, committed, environ, lock, smforge

rattler = pytest.importorskip(
    "rattler", reason="py-rattler is not installed: ./pixiw run test has it"
)

PATH = ROOT / "pixi.lock"


def test_it_is_up_to_date_without_a_channel():
    result = lock(ROOT, "--check")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert re.fullmatch(r"pixi.lock is up to date: 15 environments, 53 solves\n", result.stdout)


def test_a_solve_over_the_committed_index_leaves_it_as_it_is(tmp_path):
    from smforge.locks import read

    (committed(tmp_path) / "pixi.lock").unlink()
    result = lock(tmp_path, "--channel-dir", CHANNEL)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "pixi.lock").read_bytes() == PATH.read_bytes()
    assert read.load(tmp_path / "pixi.lock").environments.keys() >= tiers.load().tiers.keys()


def test_rattler_reads_it_and_writes_it_back_byte_for_byte(tmp_path):
    rattler.LockFile.from_path(PATH).to_path(tmp_path / "pixi.lock")
    assert (tmp_path / "pixi.lock").read_bytes() == PATH.read_bytes()


def test_a_solve_with_only_the_locked_records_returns_exactly_those():
    command = [sys.executable, "-m", "tests.manifest.locked_only", str(ROOT)]
    result = subprocess.run(
        command, env=environ(), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stdout == "53 solved\n", result.stderr


def test_no_host_but_the_conda_channel_stands_in_it():
    urls = re.findall(r"\w+://[^\s'\"]+", PATH.read_text("utf-8"))
    assert {urlsplit(url).hostname for url in urls} == {"conda.anaconda.org"}


def test_every_downloaded_package_is_pinned_by_sha256():
    from smforge.locks import read

    packages = [p for p in read.load(PATH).packages.values() if p.url]
    assert len(packages) > 400
    assert all(re.fullmatch("[0-9a-f]{64}", p.entry["sha256"]) for p in packages)


def test_the_audit_finds_no_error():
    result = smforge("audit")
    assert result.returncode == 0, result.stdout
    assert "\n0 errors, " in result.stdout


def test_linux_sm35_holds_what_a_kepler_card_can_use():
    from smforge.locks import manifest, read

    platform = next(
        p for p in manifest.load(ROOT / "pixi.toml").platforms if p.name == "linux-64-sm35"
    )
    held = {p.name: p.record for p in read.load(PATH).find("sm35", platform) or ()}
    assert str(held["pytorch"].version) == "2.1.0"
    assert str(held["pytorch"].build).startswith("cuda112")
    assert str(held["numpy"].version).startswith("1.")
    assert int(str(held["setuptools"].version).split(".")[0]) < 70
    assert "cuda-nvcc" not in held
    # The locked cuDNN starts at 5.0, so train and verify switch it off by the table.
    assert held["cudnn"].version >= rattler.Version("8.8")
    decision = tiers.load()["sm35"].cudnn
    assert decision.value is False
    assert "5.0" in decision.reason


def test_windows_sm35_names_no_cuda_package_and_is_built_from_the_recipe():
    from smforge.locks import manifest, read

    platform = next(
        p for p in manifest.load(ROOT / "pixi.toml").platforms if p.name == "win-64-sm35"
    )
    held = {p.name: p for p in read.load(PATH).find("sm35", platform) or ()}
    assert held["pytorch-kepler"].path == "recipes/pytorch-kepler"
    assert not [name for name in held if name.startswith(("cuda", "cudnn", "pytorch ", "libtorch"))]
