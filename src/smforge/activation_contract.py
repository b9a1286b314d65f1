"""The tables of activation/README.md: what activation reads and sets, and every status."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from smforge.errors import ConfigurationError
from smforge.tables import shown, workspace

PLACES = ("both", "windows", "linux")


@dataclass(frozen=True)
class Variable:
    """One variable: `where` is both, windows or linux; `use` is "in", "out" or "in, out"."""

    name: str
    where: str
    use: str
    what: str

    @property
    def is_output(self) -> bool:
        """Whether activation sets it."""
        return self.use.endswith("out")


@dataclass(frozen=True)
class Status:
    """One value of SMFORGE_STATUS, with what it means and what mends it."""

    name: str
    where: str
    meaning: str
    remedy: str


@dataclass(frozen=True)
class Contract:
    """Both tables, in the order they are written in."""

    variables: tuple[Variable, ...]
    statuses: dict[str, Status]


@functools.cache
def load(path: Path | None = None) -> Contract:
    """The contract of this checkout, or the copy in the installed package.

    Raises:
        ConfigurationError: a table is missing, or a row is not as the others.
    """
    if path is None:
        installed = Path(__file__).with_name("data") / "activation.md"
        path = installed if installed.exists() else workspace() / "activation" / "README.md"
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{shown(path)}: cannot be read ({error.strerror})") from None
    variables = [
        Variable(name, where, use, what)
        for names, where, use, what in rows(text, "Variables", path)
        for name in re.findall(r"`([^`]+)`", names)
    ]
    statuses = {
        name.strip("`"): Status(name.strip("`"), where, meaning, remedy)
        for name, where, meaning, remedy in rows(text, "Statuses", path)
    }
    return Contract(tuple(variables), statuses)


def rows(text: str, heading: str, path: Path) -> list[list[str]]:
    """The rows of the one table below a heading, its own two lines left out."""
    _, found, section = text.partition(f"\n## {heading}\n")
    section = section.partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    table = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    bad = [row for row in table if len(row) != 4 or row[1] not in PLACES]
    if not found or not table or bad:
        raise ConfigurationError(
            f"{shown(path)}: no table of four columns under '## {heading}'"
            + (f", see the row {bad[0][0]}" if bad else "")
        )
    return table
