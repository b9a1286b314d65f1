"""Copy the CUDA and cuDNN DLLs that torch needs into torch/lib.

What a DLL imports is asked of Visual C++'s dumpbin; what is loaded by name at run time no import
table shows, so those are listed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

# Loaded by name: cuDNN's parts by cudnn64_8.dll, the builtins by nvrtc, nvrtc by torch's fusers.
BY_NAME = ("cudnn_*64_8.dll", "cudnn64_8.dll", "nvrtc64_*.dll", "nvrtc-builtins64_114.dll")


def imports(dll: Path) -> list[str]:
    """The DLLs that `dll` imports, by dumpbin."""
    command = ["dumpbin", "/nologo", "/dependents", str(dll)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return re.findall(r"^\s+(\S+\.dll)\s*$", run.stdout, re.MULTILINE | re.IGNORECASE)


def copy(
    lib: Path,
    binaries: Iterable[Path],
    folders: Iterable[Path],
    imported: Callable[[Path], list[str]] = imports,
) -> list[Path]:
    """Copy into `lib` what `binaries` import, directly or not, that lies in `folders`.

    Returns the copies. Libraries that are in none of the folders are the system's or conda's.
    """
    folders = list(folders)
    there = {
        path.name.lower(): path for folder in reversed(folders) for path in folder.glob("*.dll")
    }
    wanted = [path for folder in folders for glob in BY_NAME for path in folder.glob(glob)]
    queue, copies = [*binaries], []
    for path in wanted:
        copies += take(path, lib)
    queue += copies
    while queue:
        for name in imported(queue.pop()):
            if name.lower() in there:
                new = take(there[name.lower()], lib)
                copies += new
                queue += new
    return copies


def take(source: Path, lib: Path) -> list[Path]:
    """Copy one DLL unless this run or an earlier one did; the copy, if any."""
    target = lib / source.name
    if target.exists() and target.stat().st_size == source.stat().st_size:
        return []
    shutil.copyfile(source, target)
    return [target]
