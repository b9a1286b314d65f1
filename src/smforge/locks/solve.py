"""Choose the packages of every environment and platform with rattler's solver.

Problems with the same answer are solved once: sm86 on its platform is what `default` holds there,
and what tells sm80 from sm86 (`__cuda_arch`) matters only where a package asks for it. Nothing
depends on the order in which solves end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rattler import ChannelPriority, RepoDataRecord, solve
from rattler.exceptions import GatewayError, SolverError

from smforge.errors import ConfigurationError, ToolchainError
from smforge.locks.buildenv import SourcePackage, Sources
from smforge.locks.index import Index, Source
from smforge.locks.manifest import Platform, Requirement
from smforge.locks.records import (
    Entry,
    entry_from_record,
    match_spec,
    split_virtual,
    virtual_packages,
)


@dataclass(frozen=True)
class Problem:
    """One environment on one platform, and the records to keep where they still fit."""

    environment: str
    platform: Platform
    requirements: tuple[Requirement, ...]
    locked: tuple[RepoDataRecord, ...] = ()


class Unsolvable(ConfigurationError):
    """No set of packages meets the requirements; `explanation` is rattler's own tree."""

    def __init__(self, problem: Problem, explanation: str) -> None:
        super().__init__(
            f"environment {problem.environment} has no solution on {problem.platform.name} "
            "(rattler's reason is above): change its lines in pixi.toml; pixi.lock is as it was"
        )
        self.explanation = explanation


def solve_all(
    problems: Sequence[Problem],
    index: Index,
    root: Path,
    done: Callable[[Problem], object] = str,
) -> list[list[Entry]]:
    """The lock entries of each problem, in order; `done` is called as each is solved."""
    return asyncio.run(_solve_all(problems, index, root, done))


async def _solve_all(
    problems: Sequence[Problem], index: Index, root: Path, done: Callable[[Problem], object]
) -> list[list[Entry]]:
    with Sources(root, partial(_ask, index)) as sources:
        await sources.prepare(
            (requirement, problem.platform.subdir)
            for problem in problems
            for requirement in problem.requirements
            if requirement.path
        )
        answers: dict[object, asyncio.Task[list[Entry] | SolverError]] = {}

        async def answer(problem: Problem) -> list[Entry] | SolverError:
            question = _question(problem, index, sources)
            if question not in answers:
                answers[question] = asyncio.create_task(_solve(problem, index, sources))
            result = await answers[question]
            done(problem)
            return result

        results = await asyncio.gather(*map(answer, problems))
    for problem, result in zip(problems, results, strict=True):
        if isinstance(result, SolverError):
            raise Unsolvable(problem, str(result))
    return [result for result in results if not isinstance(result, SolverError)]


def _question(problem: Problem, index: Index, sources: Sources) -> tuple[object, ...]:
    """Equal for problems with the same answer."""
    named = {requirement.name for requirement in problem.requirements}
    virtual = [
        text
        for text in problem.platform.virtual_packages
        if (name := split_virtual(text)[0]) in named
        or index.mentions(name)
        or sources.mentions(name)
    ]
    locked = sorted(record.url for record in problem.locked)
    return problem.platform.subdir, *virtual, problem.requirements, *locked


async def _solve(problem: Problem, index: Index, sources: Sources) -> list[Entry] | SolverError:
    subdir = problem.platform.subdir
    offered = sources.offered(problem.requirements, subdir)
    specs = [requirement.spec for requirement in problem.requirements]
    extra = [offered.repodata] if offered else []
    virtual = problem.platform.virtual_packages
    try:
        records = await _ask(index, specs, subdir, virtual, problem.locked, extra)
    except SolverError as error:
        return error
    packages: Mapping[str, SourcePackage] = offered.packages if offered else {}
    return [
        packages[record.url].entry() if record.url in packages else entry_from_record(record)
        for record in records
    ]


async def _ask(
    index: Index,
    specs: Iterable[str],
    subdir: str,
    virtual: Iterable[str],
    locked: Iterable[RepoDataRecord] = (),
    extra: Iterable[Source] = (),
) -> list[RepoDataRecord]:
    """One solve, `extra` before the channels; SolverError where there is no solution."""
    try:
        records: list[RepoDataRecord] = await solve(
            [*extra, *index.sources(subdir)],
            [match_spec(text) for text in specs],
            gateway=index.gateway,
            platforms=[subdir, "noarch"],
            virtual_packages=virtual_packages(virtual),
            channel_priority=ChannelPriority.Strict,
            locked_packages=list(locked),
        )
        return records
    except GatewayError as error:
        reason = str(error).splitlines()[0]
        raise ToolchainError(
            f"the channel could not be read: {reason}: check the network, or solve over a "
            "folder with --channel-dir"
        ) from None
