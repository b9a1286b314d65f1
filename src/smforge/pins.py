"""Pin the wheels of envs/wheels and envs/tools: `./pixiw run pins [NAME...]`, for maintainers.

Each NAME.in there becomes NAME.txt: every package by version and sha256 (uv), and how much there is
to download on each system (asked of the package index), which the wheel engine tells beforehand.
Stacks of envs/wheels get pyproject.toml's extras `train` and `test` beside what they name. A line
`# python-version: 3.12` in NAME.in pins for that Python alone and is kept (windows-*).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from smforge import tables, tools
from smforge.errors import ConfigurationError, ToolchainError
from smforge.files import replace

_LOWEST, _HIGHEST = 11, 14
# glibc 2.28 is what conda-forge's stacks and torch's wheels ask for.
_PLATFORMS = {
    "linux-64": [f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)]
    + ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"],
    "win-64": ["win_amd64"],
}
_MARKERS = {
    "linux-64": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    "win-64": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt"},
}
_MACHINE = {"linux-64": "x86_64", "win-64": "AMD64"}


def add_parser(commands: Any) -> None:
    """Add `smforge pins`."""
    parser = commands.add_parser(
        "pins",
        help="pin the wheels of envs/wheels and envs/tools",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="2.13.0, base, lint, ...: all")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Pin the named files, or all."""
    if not tools.in_tool_environment():
        return tools.run_in_tool_environment(["-m", "smforge", "pins", *args.names])
    envs = tables.workspace() / "envs"
    sources = {file.stem: file for file in (*envs.glob("wheels/*.in"), *envs.glob("tools/*.in"))}
    if unknown := [name for name in args.names if name not in sources]:
        raise ConfigurationError(f"no envs/*/{unknown[0]}.in; there are {', '.join(sources)}")
    for name in args.names or sorted(sources):
        target = pin(sources[name])
        print(f"pinned {tables.shown(target)}")
    return 0


def pin(source: Path) -> Path:
    """Write SOURCE's .txt beside it; ToolchainError if a package has no wheel somewhere."""
    target = source.with_suffix(".txt")
    fixed = re.search(r"^# python-version: (\S+)$", source.read_text("utf-8"), re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        pylock = Path(folder) / "pylock.toml"
        text = Path(folder) / "pins.txt"
        _uv(source, text, fixed, "requirements.txt")
        _uv(source, pylock, fixed, "pylock.toml")
        packages = tomllib.loads(pylock.read_text("utf-8"))["packages"]
        pins = text.read_text("utf-8")
    head = [fixed[0]] if fixed else []
    head += _sizes(source, packages, fixed)
    made = f"# Made by `./pixiw run pins {source.stem}` from {source.name}; do not edit."
    replace(target, "\n".join([made, *head, "", pins]))
    return target


def _uv(source: Path, output: Path, fixed: re.Match[str] | None, form: str) -> None:
    root = tables.workspace()
    words = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-emit-index-url"]
    words += ["--format", form, "--no-header", "--output-file", str(output)]
    if form == "requirements.txt":
        words += ["--generate-hashes"]
    if fixed:
        words += ["--python-platform", "x86_64-pc-windows-msvc", "--python-version", fixed[1]]
    else:
        words += ["--universal", "--python-version", f"3.{_LOWEST}"]
    if source.parent.name == "wheels":
        words += ["pyproject.toml", "--extra", "train", "--extra", "test"]
    words += [str(source.relative_to(root))]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolchainError(f"uv cannot pin {source.name}: {done.stderr.strip()}")


def _sizes(
    source: Path, packages: list[dict[str, Any]], fixed: re.Match[str] | None
) -> Iterator[str]:
    """One line for each system and Python that every package has a wheel for."""
    sizes: dict[str, int] = {}
    minors = [int(fixed[1].split(".")[1])] if fixed else range(_LOWEST, _HIGHEST + 1)
    for subdir in ["win-64"] if fixed else _PLATFORMS:
        for minor in minors:
            wheels, missing = _wheels(packages, subdir, minor)
            if missing:
                print(f"{source.stem}: no wheel for {subdir} 3.{minor} of {', '.join(missing)}")
                continue
            new = [wheel for wheel in wheels if wheel["url"] not in sizes]
            with ThreadPoolExecutor(8) as pool:
                for wheel, size in zip(new, pool.map(_size, new), strict=True):
                    sizes[wheel["url"]] = size
            total = sum(sizes[wheel["url"]] for wheel in wheels)
            yield f"# download {subdir} 3.{minor}: {total}"


def _wheels(
    packages: list[dict[str, Any]], subdir: str, minor: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """The wheels that pip takes on such a machine, and the packages that have none for it."""
    from packaging.markers import Marker
    from packaging.tags import compatible_tags, cpython_tags
    from packaging.utils import parse_wheel_filename

    version, platforms = (3, minor), _PLATFORMS[subdir]
    tags = [*cpython_tags(version, platforms=platforms)]
    tags += compatible_tags(version, f"cp3{minor}", platforms)
    rank = {tag: place for place, tag in enumerate(tags)}
    machine = _MARKERS[subdir] | {
        "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.0",
        "platform_machine": _MACHINE[subdir],
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    found, missing = [], []
    for package in packages:
        if "marker" in package and not Marker(package["marker"]).evaluate(machine):
            continue
        ranked = []
        for wheel in package.get("wheels", []):
            _, _, _, own = parse_wheel_filename(wheel["url"].rpartition("/")[2])
            if places := [rank[tag] for tag in own if tag in rank]:
                ranked.append((min(places), wheel["url"], wheel))
        if ranked:
            found.append(min(ranked)[2])
        else:
            missing.append(package["name"])
    return found, missing


def _size(wheel: dict[str, Any]) -> int:
    """Bytes of a wheel: as the index lists it, else as its server says."""
    if "size" in wheel:
        return int(wheel["size"])
    request = urllib.request.Request(wheel["url"], method="HEAD")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(answer.headers["Content-Length"])
