"""`smforge tiers`: the table of tiers, for people, for scripts, and for README."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import Any

from smforge import evidence, evidence_tables, tiers
from smforge.errors import ConfigurationError
from smforge.files import replace
from smforge.tables import dotted, shown, workspace

BEGIN = "<!-- begin: smforge tiers --readme -->"
END = "<!-- end: smforge tiers --readme -->"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "tiers",
        help="print the table of tiers",
        description="Print what each tier promises (envs/tiers.toml).",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--json", action="store_true", help="print the whole table as JSON")
    kind.add_argument(
        "--readme",
        action="store_true",
        help="write README's support table from envs/evidence.toml, between its markers",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.json:
        print(json.dumps(as_json(), indent=2))
    elif args.readme:
        path = workspace() / "README.md"
        replace(path, with_table(path.read_text("utf-8"), shown(path)))
        print(f"smforge: wrote the support table of {shown(path)}", file=sys.stderr)
    else:
        print(text_table(tier_rows()))
    return 0


def as_json() -> dict[str, Any]:
    """The table with versions and capabilities as strings, keyed by tier."""
    result = {}
    for tier in tiers.load().tiers.values():
        row = dataclasses.asdict(tier)
        row["capability"] = tier.capability and dotted(tier.capability)
        row["cuda_driver"] = tier.cuda_driver and dotted(tier.cuda_driver)
        result[tier.name] = row
    return result


def tier_rows() -> list[tuple[str, ...]]:
    """One row a tier, the header first."""
    rows: list[tuple[str, ...]] = [
        ("tier", "architecture", "driver", "win-64", "linux-64", "compile", "AMP", "GPUs")
    ]
    for tier in tiers.load().tiers.values():
        driver = f"CUDA {dotted(tier.cuda_driver)}" if tier.cuda_driver else "-"
        stacks = [stack_text(tier.stack[subdir]) for subdir in ("win-64", "linux-64")]
        rows.append(
            (
                tier.name,
                tier.architecture,
                driver,
                *stacks,
                tier.compile.value,
                tier.amp.value,
                ", ".join(tier.gpus[:3]) or "-",
            )
        )
    return rows


def stack_text(stack: tiers.Stack) -> str:
    """The stack in one cell: torch 2.13, triton 3.7, CUDA 12.8."""
    parts = [f"torch {stack.pytorch}"]
    if stack.triton:
        parts.append(f"triton {stack.triton}")
    if stack.cuda:
        parts.append(f"CUDA {stack.cuda}")
    return ", ".join(parts)


def text_table(rows: list[tuple[str, ...]]) -> str:
    """Columns padded to their widest cell."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


# -------------------------------------------------------------------------------------------------
# README's support table
# -------------------------------------------------------------------------------------------------


def with_table(readme: str, where: str) -> str:
    """README's text with the generated part between the markers replaced."""
    head, begin, rest = readme.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ConfigurationError(f"{where}: the markers '{BEGIN}' and '{END}' are missing")
    return f"{head}{BEGIN}\n\n{support_table()}\n{END}{tail}"


def support_table() -> str:
    """A Markdown table: a row per tier and platform, what ran there and what did not."""
    rows = evidence.load()
    lines = [
        "| tier | GPUs | platform | stack | torch.compile | what ran |",
        "|---|---|---|---|---|---|",
    ]
    for tier in tiers.load().tiers.values():
        for subdir in tiers.SUBDIRS.values():
            ran = [r for r in rows if r.tier == tier.name and r.platform == subdir]
            cells = (
                tier.name,
                ", ".join(tier.gpus[:4]) or "none",
                subdir,
                stack_text(tier.stack[subdir]),
                tier.compile.value,
                "<br>".join(text for r in ran if (text := run_text(r))) or "nothing yet",
            )
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", evidence_tables.tables(rows)])


def run_text(row: evidence.Run) -> str:
    """One run in a cell: check, how, where, when, and its figures or the reason it did not pass."""
    detailed = evidence_tables.is_detailed(row)
    if detailed and not evidence_tables.summary(row):
        return ""
    what = f"{row.check} {row.case}".strip()
    versions = ", ".join(f"{name} {version}" for name, version in row.versions.items())
    text = f"{what}: {row.result} ({row.how}, {row.device}, {row.date}"
    text += f"; {versions})" if versions else ")"
    if detailed:
        text += f": {evidence_tables.summary(row)}"
    elif row.figures:
        text += ": " + ", ".join(f"{name} {value:g}" for name, value in row.figures.items())
    if row.result != "passed":
        text += f": {row.reason}"
    return text.replace("|", "\\|")
