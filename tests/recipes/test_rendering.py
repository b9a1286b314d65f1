"""Every recipe renders for every variant, and says what tiers.toml says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import smforge
from smforge import tiers
from smforge.channel import bump, recipes
from smforge.errors import ConfigurationError
from tests.conftest import ROOT
from tests.recipes.conftest import RECIPES, rendered


@pytest.mark.parametrize("build_platform", ["linux-64", "win-64"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "triton-windows",
            ["3.2.0.post21-py312_0", "3.6.0.post26-py311_0", "3.7.1.post27-py311_0"],
        ),
        (
            "pytorch-kepler",
            [
                "2.0.1-cuda114_sm35_mkl_avx2_py311_0",
                "2.0.1-cuda114_sm35_openblas_avx2_py311_0",
            ],
        ),
        ("smforge", ["0.1.0-py_0"]),
    ],
)
def test_a_recipe_renders_once_for_each_variant(
    name: str, expected: list[str], build_platform: str
) -> None:
    found = [f"{v.version}-{v.build}" for v in rendered(name, build_platform)]
    assert found == expected


def test_every_recipe_is_rendered_by_these_tests() -> None:
    assert set(recipes.discover(RECIPES)) == {"triton-windows", "pytorch-kepler", "smforge"}


def test_a_triton_minor_without_a_pair_does_not_render(tmp_path: Path) -> None:
    text = (RECIPES / "triton-windows/variants.yaml").read_text().replace("3.7.1", "3.9.1")
    variants = tmp_path / "variants.yaml"
    variants.write_text(text)
    with pytest.raises(ConfigurationError, match=r"does not render.*triton_minor") as caught:
        recipes.render(RECIPES / "triton-windows", variants)
    assert "\n" not in str(caught.value)


def test_the_pytorch_that_a_triton_constrains_is_the_pair_of_tiers_toml() -> None:
    pairs = bump.known_pairs()
    for variant in rendered("triton-windows"):
        minor = ".".join(variant.version.split(".")[:2])
        expected = f"pytorch {bump.bounds(pairs[minor])}"
        assert expected in variant.requirements["run_constraints"]


def test_every_windows_stack_with_triton_windows_finds_its_package() -> None:
    there = {
        (".".join(v.version.split(".")[:2]), v.rendered.variant["python"])
        for v in rendered("triton-windows")
    }
    for tier in tiers.load().tiers.values():
        stack = tier.stack.get("win-64")
        if stack and stack.triton_package.startswith("triton-windows"):
            assert (stack.triton, f"{stack.python}.*") in there, tier.name


def test_triton_windows_needs_setuptools_only_where_it_imports_it() -> None:
    needs = {v.version: "setuptools" in v.requirements["run"] for v in rendered("triton-windows")}
    assert needs == {"3.2.0.post21": True, "3.6.0.post26": False, "3.7.1.post27": False}


def test_the_interpreter_of_a_build_is_a_package_only_where_it_can_run() -> None:
    for name in ("triton-windows", "pytorch-kepler"):
        for variant in rendered(name, "linux-64"):
            assert not variant.requirements.get("build")
        for variant in rendered(name, "win-64"):
            assert any(spec.startswith("python ") for spec in variant.requirements["build"])


def test_pytorch_kepler_asks_for_no_cuda_package() -> None:
    for variant in rendered("pytorch-kepler"):
        named = {spec.split()[0] for spec in variant.requirements["run"]}
        assert not {name for name in named if name.startswith("cu")}
        assert "__cuda" in named


def test_the_openblas_variant_is_taken_only_when_it_is_asked_for() -> None:
    weights = {
        v.rendered.variant["blas"]: v.rendered.recipe.to_dict()["build"]["variant"]
        for v in rendered("pytorch-kepler")
    }
    assert (
        weights["openblas"]["down_prioritize_variant"] > weights["mkl"]["down_prioritize_variant"]
    )


def test_the_version_of_the_smforge_package_is_the_module_s() -> None:
    (variant,) = rendered("smforge")
    assert variant.version == smforge.__version__


def test_the_smforge_package_needs_what_pyproject_s_train_extra_names() -> None:
    (variant,) = rendered("smforge")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    conda_names = {"matplotlib": "matplotlib-base"}
    expected = set()
    for requirement in project["optional-dependencies"]["train"]:
        name, _, version = requirement.partition(">=")
        expected.add(f"{conda_names.get(name, name)} >={version}")
    assert set(variant.requirements["run"]) - {"python >=3.11"} == expected


def test_a_recipe_folder_without_recipes_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no recipe"):
        recipes.discover(tmp_path)
