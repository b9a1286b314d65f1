"""The recipes of the workspace, rendered: one Variant for each package that can be built."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smforge.errors import ConfigurationError, ToolchainError

# Every recipe that is not noarch makes a package for this platform.
TARGET = "win-64"
HOSTS = {("Linux", "x86_64"): "linux-64", ("Windows", "AMD64"): "win-64"}


@dataclass(frozen=True)
class Variant:
    """One package that a recipe makes, before it is built."""

    recipe: Path  # the recipe's folder
    name: str
    version: str
    build: str
    subdir: str
    requirements: Mapping[str, Any]  # "build", "host", "run", "run_constraints": match specs
    inputs: tuple[Path, ...]  # files and folders whose content decides the package's
    rendered: Any  # rattler_build.RenderedVariant

    @property
    def file_name(self) -> str:
        """The package's file name in a channel."""
        return f"{self.name}-{self.version}-{self.build}.conda"

    def inputs_sha256(self) -> str:
        """One hash over the recipe, the variant and the local sources that it copies."""
        digest = hashlib.sha256(repr(sorted(self.rendered.variant.items())).encode())
        for root in self.inputs:
            for path in files_below(root):
                name = path.relative_to(root.parent).as_posix()
                digest.update(f"\0{name}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


def files_below(root: Path) -> Iterator[Path]:
    """`root` itself if it is a file, else the files below it that belong to a source tree."""
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def host_platform() -> str:
    """The conda platform of this machine."""
    machine = (platform.system(), platform.machine())
    if machine not in HOSTS:
        raise ToolchainError(f"recipes build on Linux and Windows x86-64; this is {machine}")
    return HOSTS[machine]


def discover(folder: Path) -> dict[str, Path]:
    """The recipe folders below `folder`, by name."""
    found = {path.parent.name: path.parent for path in sorted(folder.glob("*/recipe.yaml"))}
    if not found:
        raise ConfigurationError(f"{folder} holds no recipe (expected NAME/recipe.yaml)")
    return found


def render(
    recipe: Path, variants: Path | None = None, build_platform: str | None = None
) -> list[Variant]:
    """Every package that `recipe` makes, with `variants` in place of its own variants.yaml.

    Raises:
        ConfigurationError: the recipe or its variants do not parse or do not render.
    """
    import rattler_build as rb

    host = build_platform or host_platform()
    variants = variants or recipe / "variants.yaml"
    try:
        stage0 = rb.Stage0Recipe.from_file(recipe / "recipe.yaml")
        target = host if stage0.to_dict().get("build", {}).get("noarch") else TARGET
        platforms = rb.PlatformConfig(
            target_platform=target, build_platform=host, host_platform=target
        )
        config = rb.VariantConfig.from_file(variants) if variants.exists() else rb.VariantConfig()
        rendered = stage0.render(config, rb.RenderConfig(platforms))
    except rb.RattlerBuildError as error:
        where = variants.name if variants.parent == recipe else variants
        raise ConfigurationError(
            f"recipes/{recipe.name}: recipe.yaml with {where} does not render: {one_line(error)}"
        ) from None
    return sorted((describe(recipe, item) for item in rendered), key=lambda v: v.file_name)


def describe(recipe: Path, rendered: Any) -> Variant:
    """The facts of one rendered variant."""
    stage1 = rendered.recipe.to_dict()
    build = stage1["build"]
    sources = [recipe / s["path"] for s in stage1.get("source", []) if "path" in s]
    return Variant(
        recipe=recipe,
        name=stage1["package"]["name"],
        version=str(stage1["package"]["version"]),
        build=build["string"],
        subdir="noarch" if build.get("noarch") else rendered.variant["target_platform"],
        requirements=stage1.get("requirements", {}),
        inputs=(recipe, *(path.resolve() for path in sources)),
        rendered=rendered,
    )


def one_line(error: Exception) -> str:
    """The error's text without line breaks."""
    return " ".join(str(error).replace("\\n", " ").split())


def say(text: str) -> None:
    """A line of progress, at once."""
    print(text, file=sys.stderr, flush=True)
