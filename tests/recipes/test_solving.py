"""What conda's solver makes of the packages, over conda-forge's own index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, skip_or_fail
from tests.recipes.conftest import in_child, rendered

INDEX = ROOT / "tests" / "data" / "conda-forge"
# specs, packages in the answer (None: unsolvable)
REQUESTS: dict[str, tuple[list[str], dict[str, str] | None]] = {
    "2.6 on 3.12": (
        ["triton-windows", "pytorch 2.6.*", "python 3.12.*"],
        {"triton-windows": "3.2.0.post21", "pytorch": "2.6.0"},
    ),
    "2.10 on 3.11": (
        ["triton-windows", "pytorch 2.10.*", "python 3.11.*"],
        {"triton-windows": "3.6.0.post26"},
    ),
    "2.11 on 3.11": (
        ["triton-windows", "pytorch 2.11.*", "python 3.11.*"],
        {"triton-windows": "3.6.0.post26"},
    ),
    "2.12 on 3.11": (
        ["triton-windows", "pytorch 2.12.*", "python 3.11.*"],
        {"triton-windows": "3.7.1.post27"},
    ),
    "2.13 on 3.11": (
        ["triton-windows", "pytorch 2.13.*", "python 3.11.*"],
        {"triton-windows": "3.7.1.post27"},
    ),
    "any": (["triton-windows", "pytorch"], {"triton-windows": "3.7.1.post27"}),
    "3.2 beside 2.13": (["triton-windows 3.2.*", "pytorch 2.13.*"], None),
    "3.6 beside 2.12": (["triton-windows 3.6.*", "pytorch 2.12.*"], None),
    "3.7 beside 2.11": (["triton-windows 3.7.*", "pytorch 2.11.*"], None),
    "a pytorch of no pair": (["triton-windows", "pytorch 2.9.*"], None),
    "2.6 on a Python without its wheel": (
        ["triton-windows", "pytorch 2.6.*", "python 3.11.*"],
        None,
    ),
    "kepler": (
        ["pytorch-kepler", "matplotlib-base", "pytest", "ipykernel"],
        {"pytorch-kepler": "2.0.1", "numpy": "1.26.4", "mkl": "2022.1.0"},
    ),
    "kepler with openblas": (
        ["pytorch-kepler ==2.0.1 *openblas*"],
        {"pytorch-kepler": "2.0.1", "numpy": "1.26.4"},
    ),
    "kepler beside pytorch": (["pytorch-kepler", "pytorch"], None),
    "kepler beside triton": (["pytorch-kepler", "triton-windows"], None),
}

SOLVE = """
    import asyncio, json, sys
    from rattler import *
    from rattler import BuildString
    folder, requests = sys.argv[1], json.loads(sys.argv[2])
    repo = [SparseRepoData(Channel(url), subdir, f"{folder}/{name}/repodata.json")
            for url, subdir, name in (
                ("https://example.invalid/smforge/", "win-64", "ours"),
                ("https://conda.anaconda.org/conda-forge/", "win-64", "win-64"),
                ("https://conda.anaconda.org/conda-forge/", "noarch", "noarch"))]
    virtual = [GenericVirtualPackage(PackageName(n), Version(v), BuildString("0"))
               for n, v in (("__win", "10.0"), ("__cuda", "12.8"), ("__cuda_arch", "3.5"))]
    async def solve(specs):
        try:
            records = await solve_with_sparse_repodata(
                [MatchSpec(spec) for spec in specs], repo, virtual_packages=virtual,
                channel_priority=ChannelPriority.Strict)
        except Exception as error:
            return str(error)
        return {record.name.normalized: str(record.version) for record in records}
    async def main():
        return {name: await solve(specs) for name, specs in requests.items()}
    print(json.dumps(asyncio.run(main())))
    """


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """conda-forge's index for win-64, unpacked, beside the records of our own recipes."""
    import zstandard

    folder = tmp_path_factory.mktemp("index")
    for subdir in ("win-64", "noarch"):
        packed = INDEX / subdir / "repodata.json.zst"
        if not packed.exists():
            skip_or_fail("index", f"{packed} is missing: conda-forge's index for offline solves")
        (folder / subdir).mkdir()
        with packed.open("rb") as source, (folder / subdir / "repodata.json").open("wb") as out:
            zstandard.ZstdDecompressor().copy_stream(source, out)
    (folder / "ours").mkdir()
    (folder / "ours" / "repodata.json").write_text(json.dumps(own_records()))
    return folder


def own_records() -> dict[str, Any]:
    """Repodata of the rendered recipes, as the built packages would have it."""
    records = {}
    for name in ("triton-windows", "pytorch-kepler"):
        for variant in rendered(name, "win-64"):
            records[variant.file_name] = {
                "name": name,
                "version": variant.version,
                "build": variant.build,
                "build_number": 0,
                "depends": variant.requirements["run"],
                "constrains": variant.requirements["run_constraints"],
                "subdir": "win-64",
                "sha256": "0" * 64,
                **({"track_features": "blas_openblas"} if "openblas" in variant.build else {}),
            }
    return {"info": {"subdir": "win-64"}, "packages": {}, "packages.conda": records}


def solve(index: Path, requests: dict[str, list[str]]) -> dict[str, Any]:
    answers: dict[str, Any] = in_child(SOLVE, str(index), json.dumps(requests))
    return answers


@pytest.fixture(scope="module")
def answers(index: Path) -> dict[str, Any]:
    return solve(index, {name: specs for name, (specs, _) in REQUESTS.items()})


@pytest.mark.parametrize("name", REQUESTS)
def test_the_solver_finds_the_pair_or_refuses(name: str, answers: dict[str, Any]) -> None:
    expected = REQUESTS[name][1]
    if expected is None:
        assert "Cannot solve" in answers[name]
    else:
        assert isinstance(answers[name], dict), answers[name]
        assert {package: answers[name].get(package) for package in expected} == expected


def test_what_a_build_on_windows_needs_can_be_solved(index: Path) -> None:
    requests = {
        f"{variant.file_name} {kind}": variant.requirements[kind]
        for name in ("triton-windows", "pytorch-kepler")
        for variant in rendered(name, "win-64")
        for kind in ("build", "host")
        if variant.requirements.get(kind)
    }
    assert len(requests) == 7
    failed = {name: got for name, got in solve(index, requests).items() if isinstance(got, str)}
    assert not failed
