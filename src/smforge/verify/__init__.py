"""`smforge verify`: compile, check and time the reference kernels on this machine.

  ./pixiw run verify                     this machine's card: right, and how fast
  ./pixiw run verify --only gemm         the cases whose name holds a word
  ./pixiw run verify --no-gpu            every tier's kernels compiled without its card
  ./pixiw run verify --wine              the same, and by the Windows binaries under Wine
  ./pixiw run bench                      the same as `verify --long`: more repeats

The result is kept in reports/<time>/verify.json and verify.html; `smforge report` compares several.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import Any

from smforge import __version__, activation, tables, tiers
from smforge.errors import ConfigurationError, GPUError
from smforge.probe import gpu
from smforge.verify.machine import describe, lock_hash, versions
from smforge.verify.result import Report

EPILOG = """\
exit codes: 0 all right; 5 a result is wrong, or a tier's promise does not compile; 3 no suitable
GPU (see --no-gpu); 2 a bad option. A slow card is told and never fails, except with --strict."""


def add_parser(commands: Any) -> None:
    """Add `smforge verify`."""
    parser = commands.add_parser(
        "verify",
        help="compile, check and time reference kernels on this machine",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--no-gpu", action="store_true", help="compile for every tier; needs no card")
    add("--wine", action="store_true", help="--no-gpu, with the Windows ptxas and triton-windows")
    add("--tier", default="", metavar="NAME", help="with --no-gpu that tier alone; else its rules")
    add("--only", default="", metavar="WORD", help="only cases whose name holds WORD")
    add("--long", action="store_true", help="five times the repeats, all configurations again")
    add("--strict", action="store_true", help="slow and not-run cases fail too")
    add("--json", action="store_true", help="the result on standard output, progress on stderr")
    add("--html", type=Path, metavar="FILE", help="write the page here, not below reports/")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Verify, write the report, and return 0 or 5."""
    start = time.perf_counter()
    if args.tier:
        tiers.load()[args.tier]  # an unknown name is one line, before anything runs
    if args.wine:
        args.no_gpu = True
        if not tables.in_workspace():
            raise ConfigurationError(
                "verify --wine needs a checkout of smforge's repository: it holds the pins of the "
                "Windows wheels (envs/tools/windows-*.txt)"
            )
    activation.require_compiler(os.environ)
    for problem in activation.cache_problems(os.environ):
        say(f"warning: {problem}")
    report = _no_gpu(args) if args.no_gpu else _this_machine(args)
    report = _finished(report, time.perf_counter() - start)
    from smforge.report import publish

    publish(report, args.json, args.html)
    if report.failed or (args.strict and report.incomplete):
        return 5
    return 0


def _finished(report: Report, seconds: float) -> Report:
    return dataclasses.replace(report, seconds=round(seconds, 1))


def _this_machine(args: argparse.Namespace) -> Report:
    machine = gpu.detect()
    wanted = args.tier or os.environ.get("SMFORGE_TIER", "")
    if wanted == "cpu":
        return _cpu(args, machine)
    if not machine.gpus or machine.capability is None:
        raise GPUError(
            f"no NVIDIA GPU with a working driver was found: {tiers.command('verify --no-gpu')} "
            "compiles without one"
        )
    fit = tiers.check_installed(os.environ, machine)
    if fit.warning:
        say(f"warning: {fit.warning}")
    tier = tiers.load()[args.tier] if args.tier else fit.tier
    from smforge.verify.on_gpu import report_of

    return report_of(tier, machine, args, say)


def _cpu(args: argparse.Namespace, machine: gpu.Machine) -> Report:
    _torch_or_complain()
    from smforge.kernels import catalogue
    from smforge.verify import cpu

    cases = [case for case in catalogue.COMPILE if args.only in case.name]
    if not cases:
        raise ConfigurationError(f"no case of the cpu tier holds '{args.only}'")
    results = cpu.run(cases, lambda case: say(f"{case.result:8} {case.name} {case.reason}"))
    return _empty("cpu", "cpu", machine, cases=tuple(results))


def _no_gpu(args: argparse.Namespace) -> Report:
    from smforge import tools

    if not tools.in_tool_environment():
        tools.tool_environment()
    from smforge.verify import no_gpu

    outcomes = no_gpu.run(args.only, args.tier, say, _Progress(), args.wine)
    if not outcomes:
        raise ConfigurationError(f"no case for {args.tier or 'any tier'} holds '{args.only}'")
    from smforge.verify.summary import cell_result, findings
    from smforge.verify.under_wine import is_wine
    from smforge.wine.prefix import version as wine_version

    cells = tuple(cell_result(outcome) for outcome in outcomes)
    found = findings(outcomes)
    report = _empty(args.tier or "all", "no-gpu", gpu.Machine(), cells=cells, findings=found)
    if any(is_wine(cell.tool) and cell.result != "not-run" for cell in cells):
        report = dataclasses.replace(report, versions={**report.versions, "wine": wine_version()})
    return report


def _empty(tier: str, mode: str, machine: gpu.Machine, **parts: Any) -> Report:
    return Report(
        date=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        smforge=__version__,
        tier=tier,
        mode=mode,
        machine=describe(machine),
        versions=versions("torch", "triton", "triton-windows", "numpy"),
        lock=lock_hash(),
        **parts,
    )


def _torch_or_complain() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            f"torch is not installed here: {tiers.command('install', '-e cpu')} brings it"
        ) from None


class _Progress:
    """One line a failed cell, and a counter that a terminal overwrites."""

    def __call__(self, outcome: Any, done: int, total: int) -> None:
        cell = outcome.cell
        if outcome.result == "failed":
            told = "failed" if cell.promised else "known limit"
            say(f"{told}: {cell.case} for {cell.tier} ({cell.tool}): {outcome.reason}")
        if sys.stderr.isatty():
            end = "\n" if done == total else ""
            print(f"\r{done} of {total} compiled ", end=end, file=sys.stderr, flush=True)
        elif done == total or done % 50 == 0:
            say(f"{done} of {total} compiled")


def say(line: str) -> None:
    """One line of progress; standard output is the result's."""
    print(f"verify: {line}", file=sys.stderr, flush=True)
