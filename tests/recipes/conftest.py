"""Wheels for the tests, fetched once by hash, small recipes, and rattler in a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, skip_or_fail

for _name in ("rattler", "rattler_build", "zstandard"):
    pytest.importorskip(_name, reason=f"{_name} is missing: the tool environment has it")

from smforge.channel import bump, recipes  # noqa: E402

RECIPES = ROOT / "recipes"
DATA = Path(__file__).with_name("data")
CACHE = ROOT / ".smforge" / "test-wheels"


def fetch(requirement: str, python: str, sha256: str) -> Path:
    """A win_amd64 wheel in the cache, downloaded by pip if need be; skips without a network."""
    import hashlib

    name, version = requirement.split("==")
    CACHE.mkdir(parents=True, exist_ok=True)
    tag = f"cp{python.replace('.', '')}"
    pattern = f"{name.replace('-', '_')}-{version}-{tag}-*.whl"
    for wheel in CACHE.glob(pattern):
        if hashlib.sha256(wheel.read_bytes()).hexdigest() == sha256:
            return wheel
    requirements = CACHE / f"{name}-{version}-{tag}.txt"
    requirements.write_text(f"{requirement} --hash=sha256:{sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes"]
    command += [*bump.for_windows(python), "-d", str(CACHE), "-r", str(requirements)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        skip_or_fail("network", f"pip cannot fetch {requirement} ({run.stderr.strip()[-200:]})")
    return next(CACHE.glob(pattern))


@pytest.fixture(scope="session")
def wheelhouse() -> Path:
    """A folder with the wheel of every triton-windows variant, Wine's included."""
    for table in (RECIPES / "triton-windows/variants.yaml", DATA / "variants-wine.yaml"):
        for wheel in bump.read_variants(table):
            fetch(f"triton-windows=={wheel.version}", wheel.python.removesuffix(".*"), wheel.sha256)
    return CACHE


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that lasts for the whole run."""
    return tmp_path_factory.mktemp("channel")


@pytest.fixture(scope="session")
def triton_channel(session: Path, wheelhouse: Path) -> Path:
    """A channel with triton-windows for every variant, and Wine's, indexed."""
    from smforge.channel import build, index

    channel = session / "triton"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_FIND_LINKS", str(wheelhouse))
        build.build([RECIPES / "triton-windows"], channel)
        build.build([RECIPES / "triton-windows"], channel, DATA / "variants-wine.yaml")
    index.index(channel)
    return channel


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Path]:
    """Make a recipe that takes a moment to build; returns its folder."""

    def make(
        script: str = "",
        name: str = "small",
        extra: str = "",
        number: int = 0,
        noarch: bool = False,
    ) -> Path:
        folder = tmp_path / "recipes" / name
        folder.mkdir(parents=True, exist_ok=True)
        text = f"""\
            package: {{name: {name}, version: 1.0}}
            build:
              number: {number}
              string: b_{number}
              {"noarch: generic" if noarch else "skip: [not win]"}
              script: {{interpreter: python, file: build.py}}
            about: {{license: MIT}}
            """
        (folder / "recipe.yaml").write_text(textwrap.dedent(text) + textwrap.dedent(extra))
        body = "import os, pathlib, sys\nfolder = pathlib.Path(os.environ['PREFIX'])\n"
        body += script or "(folder / 'a.txt').write_text('a')\n"
        (folder / "build.py").write_text(body)
        return folder

    return make


def in_child(code: str, *words: str) -> Any:
    """Run Python code that prints JSON; rattler may not survive the exit of its own process."""
    ending = "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)\n"
    command = [sys.executable, "-c", textwrap.dedent(code) + ending, *words]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


def rendered(name: str, build_platform: str = "linux-64") -> Sequence[recipes.Variant]:
    """The variants of one of the workspace's recipes."""
    return recipes.render(RECIPES / name, build_platform=build_platform)
