"""Run the Windows Python and read what it printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from smforge.wine.python import WindowsPython

from .wine import Result, Shell


@dataclass(frozen=True)
class Interpreter(WindowsPython):
    """A Windows Python whose programs run to their end."""

    wine: Shell

    def run(
        self,
        *arguments: str,
        path: Sequence[Path] = (),
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 300,
    ) -> Result:
        """Run python.exe; `path` are folders of this machine for its PYTHONPATH."""
        return self.wine.run(
            [self.executable, *arguments],
            environ=self.environ(*path) | dict(environ or {}),
            cwd=cwd,
            timeout=timeout,
            encoding="utf-8",
        )
