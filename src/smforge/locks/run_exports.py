"""What build and host packages export to the run requirements of what is built with them.

A conda index does not hold this. Known: python exports its ABI, noarch packages nothing. Where a
package may export more, the recipe has to decline it (`ignore_run_exports`), else it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from smforge.errors import ConfigurationError
from smforge.locks.records import Entry, match_spec
from smforge.locks.sources import Variant


def annotated(entry: dict[str, Any], kind: str, variant: Variant) -> dict[str, Any]:
    """The entry of a `kind` ("build" or "host") package, with its exports where pixi locks them."""
    name = entry["name"]
    if name not in _direct(variant, kind):
        return entry
    if name == "python":
        minor = ".".join(entry["version"].split(".")[:2])
        abi = f"python_abi {minor}.* *_cp{minor.replace('.', '')}"
        return entry | {"run_exports": {"weak": [abi]}}
    if entry["subdir"] == "noarch":
        return entry | {"run_exports": {}}
    # From a build environment only strong exports count, and of those only compilers have any.
    counts = kind == "host" or name.endswith(("_win-64", "_linux-64"))
    if counts and name not in variant.ignored:
        raise ConfigurationError(
            f"{variant.path}/recipe.yaml: {kind} package {name} may export run requirements that "
            "the index does not tell: list it under ignore_run_exports, or lock with `pixi lock`"
        )
    return entry


def run_depends(variant: Variant, host: Iterable[Entry]) -> list[str]:
    """The variant's run requirements with what its host packages export, each once."""
    direct = _direct(variant, "host") - variant.ignored
    exports = [
        spec
        for entry in host
        if _name(entry) in direct
        for spec in entry.get("run_exports", {}).get("weak", [])
        if match_spec(spec).name.normalized not in variant.ignored
    ]
    return list(dict.fromkeys([*variant.run, *exports]))


def _direct(variant: Variant, kind: str) -> set[str]:
    specs = variant.host_specs if kind == "host" else variant.build_specs
    return {match_spec(spec).name.normalized for spec in specs}


def _name(entry: Entry) -> str:
    """The name in a URL such as .../python-3.11.15-hb12b558_2_cpython.conda."""
    return str(entry["conda"]).rpartition("/")[2].rsplit("-", 2)[0]
