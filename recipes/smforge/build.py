"""Lay smforge out as a noarch conda package: the package with its data, and its activation.

Run by rattler-build in a folder laid out as the repository (SRC_DIR); installs into PREFIX. Copies
alone, so that it needs no channel and no build backend.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

# rattler-build moves lib/pythonX.Y/site-packages of a noarch package to site-packages.
SITE_PACKAGES = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
# Left out: the wheel engine serves checkouts without pixi or conda.
LEFT_OUT = ("__pycache__", "wheels", "wheels.py", "data")
# The lines with which a .bat file keeps and restores one variable. A value may hold quotes, which
# would end those of an `if`: they are compared without (and %X:"=% of an undefined X is junk).
KEEP = (
    'if not defined SMFORGE_BACKUP_{0} if defined {0} set "SMFORGE_BACKUP_{0}=%{0}%"',
    'if not defined SMFORGE_BACKUP_{0} set "SMFORGE_BACKUP_{0}=UNSET"',
)
RESTORE = (
    'if defined SMFORGE_BACKUP_{0} set "{0}=%SMFORGE_BACKUP_{0}%"',
    'set "_smf_old=x%SMFORGE_BACKUP_{0}%"',
    'set "_smf_old=%_smf_old:"=%"',
    'if "%_smf_old%"=="xUNSET" set "{0}="',
    'set "SMFORGE_BACKUP_{0}="',
)


def main() -> None:
    source, prefix = Path(os.environ["SRC_DIR"]), Path(os.environ["PREFIX"])
    recipe = Path(os.environ["RECIPE_DIR"])
    install_package(source, prefix / SITE_PACKAGES)
    shutil.copytree(source / "activation", prefix / "share/smforge/activation", dirs_exist_ok=True)
    variables = contract((source / "activation/README.md").read_text("utf-8"))
    for when in ("activate", "deactivate"):
        folder = prefix / f"etc/conda/{when}.d"
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, newline in (("sh", "\n"), ("bat", "\r\n")):
            text = (recipe / f"scripts/{when}.{suffix}").read_text("utf-8")
            text = text.replace("@VARIABLES@", listed(variables, when, suffix))
            (folder / f"smforge.{suffix}").write_text(text, "utf-8", newline=newline)


def install_package(source: Path, site_packages: Path) -> None:
    """Copy the package, its data and the metadata that importlib.metadata reads."""
    package = site_packages / "smforge"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(source / "src/smforge", package, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (package / "data").mkdir()
    for name in ("tiers.toml", "evidence.toml"):
        shutil.copy(source / "envs" / name, package / "data" / name)
    shutil.copy(source / "activation/README.md", package / "data/activation.md")
    project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
    dist_info = site_packages / f"{project['name']}-{project['version']}.dist-info"
    dist_info.mkdir(exist_ok=True)
    (dist_info / "METADATA").write_text(
        "Metadata-Version: 2.1\n"
        f"Name: {project['name']}\nVersion: {project['version']}\n"
        f"Summary: {project['description']}\nLicense: {project['license']}\n"
        f"Requires-Python: {project['requires-python']}\n"
    )
    (dist_info / "INSTALLER").write_text("conda\n")


def contract(readme: str) -> dict[str, str]:
    """The variables that activation sets, by the table in activation/README.md: name -> where.

    `where` is "both", "windows" or "linux".
    """
    found = {}
    for line in readme.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) >= 4 and "out" in cells[2].split(", "):
            for name in re.findall(r"`([A-Za-z_][A-Za-z0-9_]*)`", cells[0]):
                found[name] = cells[1]
    if "SMFORGE_STATUS" not in found:
        sys.exit(
            "error: activation/README.md holds no table of variables (variable|where|use|what)"
        )
    return found


def listed(variables: dict[str, str], when: str, suffix: str) -> str:
    """What stands for @VARIABLES@ in a script."""
    where = "windows" if suffix == "bat" else "linux"
    names = [name for name, place in variables.items() if place in ("both", where)]
    if suffix == "sh":
        return " ".join(names)
    lines = KEEP if when == "activate" else RESTORE
    return "\n".join(line.format(name) for name in names for line in lines)


if __name__ == "__main__":
    main()
