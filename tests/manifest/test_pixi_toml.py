"""pixi.toml says what envs/tiers.toml says, in the order and the forms that pixi needs."""

from __future__ import annotations

import json
import os
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from smforge import tiers
from smforge.tables import dotted
from tests.conftest import ROOT

MANIFEST = tomllib.loads((ROOT / "pixi.toml").read_text("utf-8"))
TABLE = tiers.load()
PLATFORMS = MANIFEST["workspace"]["platforms"]
SUBDIRS = list(tiers.SUBDIRS.values())


def specs(platform: str) -> dict[str, object]:
    """The dependencies of one platform: pixi merges the matching targets, the later one wins."""
    subdir = platform.rpartition("-")[0]
    merged = dict(MANIFEST["dependencies"])
    for selector, target in MANIFEST["target"].items():
        family = {"win": subdir == "win-64", "unix": subdir == "linux-64"}.get(selector, False)
        if family or fnmatch(platform, selector) or selector == subdir:
            merged.update(target.get("dependencies", {}))
    return merged


def version(spec: object) -> str:
    return spec["version"] if isinstance(spec, dict) else spec


def cases():
    for tier in TABLE.tiers.values():
        for subdir in SUBDIRS:
            yield pytest.param(tier, subdir, id=f"{subdir}-{tier.name}")


def test_every_tier_has_its_platforms_highest_capability_first():
    expected = []
    for tier in [*TABLE.gpu_tiers(), TABLE["cpu"]]:
        for subdir in SUBDIRS:
            row: dict[str, object] = {"name": f"{subdir}-{tier.name}", "platform": subdir}
            if tier.capability:
                row["cuda"] = {"driver": dotted(tier.cuda_driver), "arch": dotted(tier.capability)}
            expected.append(row)
    assert expected == PLATFORMS


def test_default_holds_every_platform_but_those_that_are_opt_in():
    opt_in = {f"{s}-{t.name}" for t in TABLE.tiers.values() for s in t.opt_in}
    names = [p["name"] for p in PLATFORMS]
    assert MANIFEST["environments"]["default"] == ["auto"]
    assert MANIFEST["feature"]["auto"]["platforms"] == [n for n in names if n not in opt_in]


def test_each_tier_has_an_environment_that_only_narrows_the_platforms():
    names = [p["name"] for p in PLATFORMS]
    for tier in TABLE.tiers.values():
        feature = MANIFEST["feature"][tier.name]
        own = [n for n in (f"{s}-{tier.name}" for s in SUBDIRS) if n in names]
        assert feature == {"platforms": own}
        assert MANIFEST["environments"][tier.name] == [tier.name]
    extra = set(MANIFEST["environments"]) - set(TABLE.tiers)
    assert extra == {"default", "dev"}


@pytest.mark.parametrize(("tier", "subdir"), list(cases()))
def test_the_stack_is_the_one_of_the_table(tier, subdir):
    stack, found = tier.stack[subdir], specs(f"{subdir}-{tier.name}")
    assert version(found["python"]) == f"{stack.python}.*"
    if stack.source == "recipes/pytorch-kepler":
        assert found["pytorch-kepler"] == {"path": stack.source}
        assert "pytorch" not in found
    else:
        assert admits(version(found["pytorch"]), stack.pytorch)
        build = found["pytorch"]["build"]
        assert build.startswith("cuda") if tier.capability else build == "cpu_*"
    if stack.nvcc:
        assert found["cuda-version"] == f"{stack.cuda}.*"
        assert ("cuda-nvcc_win-64" if subdir == "win-64" else "cuda-nvcc") in found
        assert "cuda-cudart-dev" in found
    if tier.cudnn.value and tier.cudnn.below:
        cudnn = {found.get("cudnn"), found.get("libcudnn")}
        assert f"<{tier.cudnn.below}" in cudnn
    if subdir == "linux-64":
        assert "gxx_linux-64" in found
        if tier.compile.value == "inductor" and stack.triton:
            assert found["triton"] == f"{stack.triton}.*"
    else:
        assert found["vc14_runtime"] == ">=14.42"
        recipe = {"path": "recipes/triton-windows"} if stack.triton else None
        assert found.get("triton-windows") == recipe
        assert "cuda-nvcc" not in found


def admits(spec: str, minor: str) -> bool:
    """Whether a spec such as ">=2.12,<2.14" or "2.6.*" admits the release 2.13."""
    number = tuple(map(int, minor.split(".")))
    for part in spec.split(","):
        bound = tuple(map(int, re.findall(r"\d+", part)[:2]))
        ok = {">": number >= bound, "<": number < bound}.get(part[0], number == bound)
        if not ok:
            return False
    return True


@pytest.mark.parametrize(("tier", "subdir"), list(cases()))
def test_tier_and_arch_list_reach_the_tasks(tier, subdir):
    env = MANIFEST["target"][f"*-{tier.name}"]["activation"]["env"]
    expected = {"SMFORGE_TIER": tier.name}
    if tier.capability:
        expected["TORCH_CUDA_ARCH_LIST"] = tier.torch_cuda_arch_list
    assert env == expected


def test_every_selector_names_a_platform_a_glob_or_a_family():
    names = [p["name"] for p in PLATFORMS]
    for selector in MANIFEST["target"]:
        known = selector in {"win", "unix", "win-64", "linux-64"}
        assert known or any(fnmatch(name, selector) for name in names), selector


def test_platforms_of_features_exist():
    names = {p["name"] for p in PLATFORMS}
    for feature in MANIFEST["feature"].values():
        assert set(feature.get("platforms", [])) <= names


def test_activation_scripts_exist_with_the_extension_that_pixi_runs():
    for family, extension in {"win": ".bat", "unix": ".sh"}.items():
        (script,) = MANIFEST["target"][family]["activation"]["scripts"]
        assert Path(script).suffix == extension
        assert (ROOT / script).is_file()


def tasks():
    yield from MANIFEST["tasks"].items()
    for feature in MANIFEST["feature"].values():
        yield from feature.get("tasks", {}).items()


@pytest.mark.parametrize(
    ("name", "task"), list(tasks()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_task_is_one_command_of_plain_words_or_depends_on(name, task):
    assert name.startswith("_") or task["description"]
    assert set(task) <= {"cmd", "depends-on", "description"}
    assert ("cmd" in task) != ("depends-on" in task)
    if "cmd" in task:
        assert re.fullmatch(r"[\w./=-]+( [\w./=-]+)*", task["cmd"]), "no shell syntax, no template"


def test_it_needs_the_pixi_whose_targets_follow_the_platform():
    assert MANIFEST["workspace"]["requires-pixi"] == ">=0.77"


def test_it_is_valid_by_pixis_own_schema():
    path = os.environ.get("SMFORGE_PIXI_SCHEMA")
    if not path:
        pytest.skip("SMFORGE_PIXI_SCHEMA does not name pixi's manifest schema")
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft7Validator(json.loads(Path(path).read_text("utf-8")))
    assert [e.message for e in validator.iter_errors(MANIFEST)] == []
