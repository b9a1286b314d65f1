"""What `smforge lock` does: keep what fits, solve the rest, write, and say what moved."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from smforge import files
from smforge.errors import ConfigurationError
from smforge.locks import index, manifest, read, solve, write
from smforge.locks.check import Checker, Stale
from smforge.locks.records import Entry
from smforge.tiers import command

_SHOWN = 12  # lines of a diff that still read as a short one


def check(manifest_path: Path, as_json: bool) -> int:
    """0 when pixi.lock is what pixi.toml asks for, else 2 and a short diff."""
    workspace = manifest.load(manifest_path)
    problems = Checker(workspace, read.load(_lock_path(manifest_path))).problems()
    if as_json:
        print(
            json.dumps(
                {"up_to_date": not problems, "problems": [vars(p) for p in problems]}, indent=2
            )
        )
        return 2 if problems else 0
    if not problems:
        print(f"pixi.lock is up to date: {_count(workspace)}")
        return 0
    lines = _grouped(problems)
    print("\n".join(lines[:_SHOWN]))
    if len(lines) > _SHOWN:
        print(f"  ... and {len(lines) - _SHOWN} more (--json prints all)")
    raise ConfigurationError(f"pixi.lock does not fit pixi.toml: {command('lock')} mends it")


def _grouped(problems: Sequence[Stale]) -> list[str]:
    """One line a text: what is wrong everywhere is said once."""
    places: dict[str, list[str]] = {}
    for problem in problems:
        places.setdefault(problem.text, []).append(problem.where)
    return [f"- {text}{_places(where)}" for text, where in places.items()]


def _places(where: Sequence[str]) -> str:
    more = f" and {len(where) - 1} more" if len(where) > 1 else ""
    return f" ({where[0]}{more})" if where[0] else ""


def lock(
    manifest_path: Path, upgrade: Sequence[str] | None, channel_dir: Path | None, as_json: bool
) -> int:
    """Bring pixi.lock up to date; `upgrade` is None (keep), [] (all move) or package names."""
    workspace = manifest.load(manifest_path)
    path = _lock_path(manifest_path)
    old = read.load(path) if path.exists() and upgrade != [] else None
    _check_names(upgrade or [], old)
    if shutil.which("pixi"):
        _say("pixi is on PATH: `pixi lock` is the usual way; going on without it")
    solutions = _solutions(workspace, old, set(upgrade or []), channel_dir)
    text = write.text(workspace, solutions)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != before:
        files.replace(path, text)
    _report(workspace, old, path, text != before, as_json)
    return 0


def _lock_path(manifest_path: Path) -> Path:
    return manifest_path.with_name("pixi.lock")


def _check_names(names: Sequence[str], old: read.Lock | None) -> None:
    known = {package.name for package in old.packages.values()} if old else set()
    for name in names:
        if name not in known:
            raise ConfigurationError(f"--upgrade {name}: pixi.lock holds no package of that name")


def _solutions(
    workspace: manifest.Manifest, old: read.Lock | None, moving: set[str], channel_dir: Path | None
) -> dict[tuple[str, str], Sequence[Entry]]:
    checker = Checker(workspace, old) if old else None
    solutions: dict[tuple[str, str], Sequence[Entry]] = {}
    problems = []
    for environment, platform, requirements in workspace.targets():
        locked = old.find(environment.name, platform) or () if old else ()
        stale = not checker or checker.target(environment.name, platform, requirements)
        key = (environment.name, platform.name)
        solutions[key] = [_with_needs(old, package) for package in locked] if old else []
        if stale or moving & {package.name for package in locked}:
            keep = tuple(p.record for p in locked if p.url and p.name not in moving)
            problems.append(solve.Problem(environment.name, platform, requirements, keep))
    solved = _solve(workspace, problems, channel_dir)
    for problem, entries in zip(problems, solved, strict=True):
        solutions[problem.environment, problem.platform.name] = entries
    return solutions


def _with_needs(old: read.Lock, package: read.Package) -> Entry:
    """The entry of a kept package, a source package with its build and host packages' entries."""
    if package.url:
        return package.entry
    needs = [p.entry for kind in ("build", "host") for p in old.needed(package, kind)]
    return {**package.entry, "_needs": needs}


def _solve(
    workspace: manifest.Manifest, problems: list[solve.Problem], channel_dir: Path | None
) -> list[list[Entry]]:
    if not problems:
        return []
    source: AbstractContextManager[index.Index] = (
        index.offline(workspace.channels, channel_dir)
        if channel_dir
        else nullcontext(index.online(workspace.channels))
    )
    with source as channels, _progress(len(problems)) as done:
        try:
            return solve.solve_all(problems, channels, workspace.path.parent, done)
        except solve.Unsolvable as error:
            print(error.explanation, file=sys.stderr)
            raise


@contextmanager
def _progress(total: int) -> Iterator[Callable[[solve.Problem], None]]:
    """A bar on a terminal's standard error; a pipe gets the result line only."""
    console = Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR")))
    columns = (TextColumn("solving"), BarColumn(), MofNCompleteColumn(),
               TextColumn("{task.description}"))  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal,
                  transient=True) as bar:  # fmt: skip
        task = bar.add_task("", total=total)

        def done(problem: solve.Problem) -> None:
            where = f"{problem.environment} on {problem.platform.name}"
            bar.update(task, advance=1, description=where)

        yield done


def _report(
    workspace: manifest.Manifest, old: read.Lock | None, path: Path, changed: bool, as_json: bool
) -> None:
    moves = _moves(old, read.load(path)) if changed else []
    if as_json:
        print(json.dumps({"changed": changed, "moves": moves}, indent=2))
        return
    if not changed:
        print(f"pixi.lock is unchanged: {_count(workspace)}")
        return
    for line in moves[:_SHOWN]:
        print(line)
    if len(moves) > _SHOWN:
        print(f"  ... and {len(moves) - _SHOWN} more (`git diff pixi.lock` shows all)")
    print(f"wrote pixi.lock: {_count(workspace)}")


def _moves(old: read.Lock | None, new: read.Lock) -> list[str]:
    """One line a package whose locked files changed; none for a first lock."""
    if old is None:
        return []
    before, after = _versions(old), _versions(new)
    return [
        f"{name}: {', '.join(sorted(before.get(name, {'not locked'})))} -> "
        f"{', '.join(sorted(after.get(name, {'not locked'})))}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _versions(lock: read.Lock) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for package in lock.packages.values():
        text = (f"{package.record.version} {package.record.build}" if package.url
                else str(package.entry.get("conda_source")))  # fmt: skip
        found.setdefault(package.name, set()).add(text)
    return found


def _count(workspace: manifest.Manifest) -> str:
    targets = sum(1 for _ in workspace.targets())
    names = sum(1 for item in workspace.environments if item.requirements)
    return f"{names} environments, {targets} solves"


def _say(line: str) -> None:
    print(f"smforge: {line}", file=sys.stderr)
