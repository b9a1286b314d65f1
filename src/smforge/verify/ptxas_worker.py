"""The child that assembles PTX with one Triton's own ptxas; SMFORGE_PTXAS names its folder.

Run by a Windows CPython under Wine it starts many ptxas.exe at the cost of one start of Wine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from smforge.verify.ptxas import assemble, release
from smforge.verify.worker import Job, serve


def main() -> int:
    """Assemble until standard input ends."""
    tools = Path(os.environ["SMFORGE_PTXAS"])

    def handle(job: Job) -> Job:
        with tempfile.TemporaryDirectory() as work:
            found = assemble(tools, job["ptx"], job["capability"], Path(work))
        return {"ok": True, "ptx": "", **found}  # the text came from here: it need not go back

    program = tools / ("ptxas.exe" if os.name == "nt" else "ptxas")
    said = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True)
    return serve({"version": release(said.stdout)}, handle)


if __name__ == "__main__":
    sys.exit(main())
