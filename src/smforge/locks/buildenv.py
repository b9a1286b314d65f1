"""Source packages: recipe variants with their build and host environments, offered to the solver.

The lock holds them as `conda_source`. A build or host environment is solved without a GPU (no
`__cuda`): a build happens on any machine of the subdir.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rattler import Channel, RepoDataRecord, SparseRepoData
from rattler.exceptions import SolverError

from smforge.errors import ConfigurationError
from smforge.locks.manifest import SUBDIR_DEFAULTS, Requirement
from smforge.locks.records import Entry, entry_from_record, spec_name
from smforge.locks.run_exports import annotated, run_depends
from smforge.locks.sources import Variant, render

# Never fetched: it only has to outrank the channels for the names it holds.
_CHANNEL = "https://recipes.invalid/"

Ask = Callable[..., Awaitable[list[RepoDataRecord]]]


@dataclass(frozen=True)
class SourcePackage:
    """A variant whose build and host environments are solved."""

    variant: Variant
    depends: tuple[str, ...]  # run requirements and what the host packages export
    build_packages: tuple[Entry, ...]
    host_packages: tuple[Entry, ...]

    def entry(self) -> dict[str, Any]:
        """The lock entry; `_needs` carries the entries of its build and host packages."""
        fields = {
            "variants": dict(self.variant.values),
            "depends": list(self.depends),
            "constrains": list(self.variant.constrains),
            "license": self.variant.license,
            "build_packages": [{"conda": entry["conda"]} for entry in self.build_packages],
            "host_packages": [{"conda": entry["conda"]} for entry in self.host_packages],
        }
        fields = {key: value for key, value in fields.items() if value}
        # pixi keeps these digits without checking them, so any stable digest will do.
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:8]
        selector = f"{self.variant.name}[{digest}] @ {self.variant.path}"
        needs = [*self.build_packages, *self.host_packages]
        return {"conda_source": selector, **fields, "_needs": needs}

    def repodata(self) -> dict[str, Any]:
        """The record that the solver sees."""
        variant = self.variant
        return {
            "name": variant.name, "version": variant.version, "build": variant.build,
            "build_number": variant.build_number, "subdir": variant.subdir,
            "depends": list(self.depends), "constrains": list(variant.constrains),
            "track_features": " ".join(variant.track_features),
        }  # fmt: skip


@dataclass(frozen=True)
class Offer:
    """What a solve may choose from besides the channels."""

    repodata: SparseRepoData
    packages: Mapping[str, SourcePackage]  # record URL -> package


class Sources:
    """The source packages of a workspace, each recipe rendered and solved once."""

    def __init__(self, root: Path, ask: Ask) -> None:
        self._root = root
        self._ask = ask
        self._packages: dict[tuple[str, str, str], list[SourcePackage]] = {}
        self._offers: dict[tuple[tuple[str, str], ...], Offer] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="smforge-")

    def __enter__(self) -> Sources:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for offer in self._offers.values():
            offer.repodata.close()
        self._folder.cleanup()

    async def prepare(self, wanted: Iterable[tuple[Requirement, str]]) -> None:
        """Render and solve every (requirement, subdir) that will be asked for."""
        for requirement, subdir in wanted:
            key = (requirement.name, requirement.path, subdir)
            if key not in self._packages:
                variants = render(self._root, requirement.path, requirement.name, subdir)
                self._packages[key] = [await self._resolve(variant, subdir) for variant in variants]

    def offered(self, requirements: Iterable[Requirement], subdir: str) -> Offer | None:
        """The packages that stand behind the path requirements, if there are any."""
        wanted = tuple((item.name, item.path) for item in requirements if item.path)
        if not wanted:
            return None
        if (*wanted, (subdir, "")) not in self._offers:
            packages = [p for name, path in wanted for p in self._packages[name, path, subdir]]
            self._offers[*wanted, (subdir, "")] = self._offer(packages, subdir)
        return self._offers[*wanted, (subdir, "")]

    def mentions(self, name: str) -> bool:
        """Whether any rendered package depends on `name`, or is constrained by it."""
        return any(
            spec_name(spec) == name
            for packages in self._packages.values()
            for package in packages
            for spec in (*package.depends, *package.variant.constrains)
        )

    def _offer(self, packages: list[SourcePackage], subdir: str) -> Offer:
        files = {
            f"{p.variant.name}-{p.variant.version}-{p.variant.build}.conda": p for p in packages
        }
        if len(files) != len(packages):
            names = sorted({package.variant.path for package in packages})
            raise ConfigurationError(f"{', '.join(names)}: two variants have the same version and "
                                     "build string: put what tells them apart into it")  # fmt: skip
        index = {
            "info": {"subdir": subdir}, "packages": {},
            "packages.conda": {name: package.repodata() for name, package in files.items()},
        }  # fmt: skip
        path = Path(self._folder.name) / f"{len(self._offers)}.json"
        path.write_text(json.dumps(index), encoding="utf-8")
        repodata = SparseRepoData(Channel(_CHANNEL), subdir, path)
        by_url = {f"{_CHANNEL}{subdir}/{name}": package for name, package in files.items()}
        return Offer(repodata, by_url)

    async def _resolve(self, variant: Variant, subdir: str) -> SourcePackage:
        build = await self._environment("build", variant, variant.build_specs, subdir)
        host = await self._environment("host", variant, variant.host_specs, subdir)
        return SourcePackage(variant, tuple(run_depends(variant, host)), tuple(build), tuple(host))

    async def _environment(
        self, kind: str, variant: Variant, specs: tuple[str, ...], subdir: str
    ) -> list[Entry]:
        if not specs:
            return []
        virtual = [f"{name}={value}" for name, value in SUBDIR_DEFAULTS[subdir].items()]
        try:
            records = await self._ask(specs, subdir, virtual)
        except SolverError as error:
            raise ConfigurationError(
                f"{variant.path}: the {kind} requirements of {variant.name} {variant.version} "
                f"have no solution: {error}"
            ) from None
        return [annotated(entry_from_record(record), kind, variant) for record in records]
