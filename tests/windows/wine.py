"""Run Windows programs and batch files under Wine, and read what they printed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from smforge.wine.prefix import Wine, windows_path

PROGRAMS = Path(__file__).with_name("programs")


@dataclass(frozen=True)
class Result:
    """What a Windows program ended with; `processes` is None unless they were counted."""

    returncode: int
    stdout: str
    stderr: str
    processes: int | None


def write_batch(path: Path, text: str) -> Path:
    """A batch file with the line ends that cmd wants; one byte a character, as Wine reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.replace("\r\n", "\n").replace("\n", "\r\n").encode("cp1252"))
    return path


@dataclass(frozen=True)
class Shell(Wine):
    """Wine with its cmd.exe, and the stand-in programs of this folder."""

    def program(self, name: str) -> Path:
        """`programs/<name>.c` built for Windows; kept by content."""
        return self.build(PROGRAMS / f"{name}.c")

    def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        count: bool = False,
        timeout: float = 120,
        encoding: str = "cp1252",
    ) -> Result:
        """Run a Windows program. With `count`, also count the processes that it started."""
        counter = [windows_path(self.program("jobcount"))] if count else []
        done = subprocess.run(
            ["wine", *counter, *command],
            cwd=cwd,
            env=self.environ | dict(environ or {}),
            stdin=subprocess.DEVNULL,  # a file as standard input aborts a Windows Python
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        errors = done.stderr.decode(encoding, "replace").replace("\r", "")
        counted = re.search(r"^jobcount: (\d+)\n", errors, re.MULTILINE)
        return Result(
            done.returncode,
            done.stdout.decode(encoding, "replace").replace("\r", ""),
            errors.replace(counted[0], "") if counted else errors,
            int(counted[1]) - 1 if counted else None,
        )

    def cmd(
        self,
        script: str,
        environ: Mapping[str, str] | None = None,
        *,
        folder: Path,
        count: bool = False,
        extra: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> Result:
        """Run a batch script in `folder` with these Windows variables; "" unsets one.

        Wine sets some names anew when a program starts (LOCALAPPDATA, ProgramData, ...), and its
        cmd misreads text in a script that is not ASCII: so values travel under other names and are
        set inside. A value with a quotation mark does not survive that: give it in `extra`, which
        goes into the environment as it is.
        """
        given = dict(environ or {})
        carried = {f"_CARRY_{index}": value for index, value in enumerate(given.values())}
        lines = ["@echo off"]
        for name, carrier in zip(given, carried, strict=True):
            value = f"%{carrier}%" if given[name] else ""
            lines += [f'set "{name}={value}"', f'set "{carrier}="']
        path = write_batch(folder / "script.bat", "\n".join([*lines, script, ""]))
        return self.run(
            ["cmd", "/d", *options, "/c", path.name],
            cwd=folder,
            environ={**{k: v for k, v in carried.items() if v}, **(extra or {})},
            count=count,
        )
