"""Recipes of source dependencies, rendered into the variants that the solver may choose from.

Rendering follows pixi's backend for rattler-build: recipe.yaml with the variants.yaml beside it,
build, host and target platform the same, variant values applied to build and host requirements
that name no version, never to run requirements.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rattler_build import (
    PlatformConfig,
    RattlerBuildError,
    RecipeParseError,
    RenderConfig,
    Stage0Recipe,
    VariantConfig,
    VariantError,
)

from smforge.errors import ConfigurationError
from smforge.locks.records import match_spec


@dataclass(frozen=True)
class Variant:
    """One package that a recipe can become."""

    name: str
    version: str
    build: str
    build_number: int
    subdir: str
    path: str  # the recipe's folder as the manifest names it
    values: Mapping[str, Any]  # variant key -> value
    run: tuple[str, ...]
    constrains: tuple[str, ...]
    build_specs: tuple[str, ...]
    host_specs: tuple[str, ...]
    license: str | None
    ignored: frozenset[str]  # packages and names whose run exports the recipe declines
    track_features: tuple[str, ...]  # each makes the solver like the variant less


def render(root: Path, path: str, name: str, subdir: str) -> list[Variant]:
    """Every variant of package `name` in the recipe at `root/path`, rendered for `subdir`."""
    recipe = root / path / "recipe.yaml"
    if not recipe.is_file():
        raise ConfigurationError(
            f"pixi.toml takes {name} from {path}, but {path}/recipe.yaml does not exist"
        )
    try:
        rendered = _render(recipe, subdir)
    except (RattlerBuildError, RecipeParseError, VariantError) as error:
        print(error, file=sys.stderr)
        raise ConfigurationError(
            f"{path}/recipe.yaml does not render for {subdir}: rattler-build's reason is above"
        ) from None
    variants = [_variant(item, path, subdir) for item in rendered]
    variants = [variant for variant in variants if variant.name == name]
    if not variants:
        raise ConfigurationError(
            f"{path}/recipe.yaml makes no {name} for {subdir}: pixi.toml wants it there"
        )
    return variants


def _render(recipe: Path, subdir: str) -> list[Any]:
    platform = PlatformConfig(target_platform=subdir, build_platform=subdir, host_platform=subdir)
    variants = recipe.with_name("variants.yaml")
    config = VariantConfig.from_file(variants) if variants.is_file() else VariantConfig()
    stage0 = Stage0Recipe.from_file(recipe)
    return list(stage0.render(config, RenderConfig(platform)))


def _variant(rendered: Any, path: str, subdir: str) -> Variant:
    recipe = rendered.recipe.to_dict()
    requirements = recipe.get("requirements", {})
    values = dict(rendered.variant)
    name = recipe["package"]["name"]
    noarch = recipe["build"].get("noarch")
    return Variant(
        name=name,
        version=str(recipe["package"]["version"]),
        build=recipe["build"]["string"],
        build_number=recipe["build"].get("number", 0),
        subdir="noarch" if noarch else subdir,
        path=path,
        values=values,
        run=_specs(requirements.get("run", []), {}, path),
        constrains=_specs(requirements.get("run_constraints", []), {}, path),
        build_specs=_specs(requirements.get("build", []), values, path),
        host_specs=_specs(requirements.get("host", []), values, path),
        license=recipe.get("about", {}).get("license"),
        ignored=frozenset(
            name for names in requirements.get("ignore_run_exports", {}).values() for name in names
        ),
        track_features=_track_features(recipe),
    )


def _track_features(recipe: Mapping[str, Any]) -> tuple[str, ...]:
    """What rattler-build and pixi make of `down_prioritize_variant`."""
    times = recipe["build"].get("variant", {}).get("down_prioritize_variant") or 0
    return tuple(f"{recipe['package']['name']}-p-{number}" for number in range(abs(times)))


def _specs(items: list[Any], values: Mapping[str, Any], path: str) -> tuple[str, ...]:
    found = []
    for item in items:
        if not isinstance(item, str):
            raise ConfigurationError(
                f"{path}/recipe.yaml requires {item}, which `smforge lock` does not resolve: "
                "write a plain spec, or lock with `pixi lock`"
            )
        value = values.get(item.replace("-", "_"))  # only a bare name can be a variant's key
        found.append(str(match_spec(item if value is None else f"{item} {value}")))
    return tuple(found)
