"""Fetch one triton-windows wheel by name and hash, and lay it out as a win-64 conda package.

Run by rattler-build with WHEEL_VERSION, WHEEL_SHA256 and WHEEL_PYTHON set. pip downloads the
wheel: PIP_INDEX_URL, PIP_EXTRA_INDEX_URL and PIP_CONFIG_FILE say where from, and with
PIP_FIND_LINKS naming a folder that holds it nothing goes over the network. Runs again over its own
remains.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

# pip settings that may come in; every other PIP_ variable is rattler-build's own (PIP_NO_INDEX,
# PIP_NO_DEPENDENCIES, ...) and meant for installing the source tree of a recipe.
PIP_SETTINGS = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_CONFIG_FILE",
    "PIP_CERT",
)


def main() -> None:
    version, sha256 = os.environ["WHEEL_VERSION"], os.environ["WHEEL_SHA256"]
    work = Path(os.environ["SRC_DIR"])
    wheel = download(version, sha256, os.environ["WHEEL_PYTHON"], work / "wheel")
    # win-64 keeps site-packages in Lib, also where a Linux machine makes the package.
    site_packages = Path(os.environ["PREFIX"]) / "Lib" / "site-packages"
    remove_remains(site_packages)
    unpack(wheel, site_packages)
    hand_to_conda(site_packages / f"triton_windows-{version}.dist-info")


def download(version: str, sha256: str, python: str, folder: Path) -> Path:
    """The wheel of `version` for win_amd64 and `python`, its sha256 checked by pip."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    requirements = folder / "requirements.txt"
    requirements.write_text(f"triton-windows=={version} --hash=sha256:{sha256}\n")
    command = [
        *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input"),
        *("--no-deps", "--require-hashes", "--only-binary=:all:"),
        *("--platform=win_amd64", f"--python-version={python}", "--implementation=cp"),
        *("--dest", str(folder), "--requirement", str(requirements)),
    ]
    status, output = run(command, pip_environment(version))
    if status:
        got = [line.split()[-1] for line in output if line.split()[:1] == ["Got"]]
        said = [line.strip() for line in output if line.startswith("ERROR: ")]
        reason = said[0].removeprefix("ERROR: ") if said else f"pip ended with {status}"
        reason = f"its sha256 is {got[0]}" if got else reason
        sys.exit(
            f"error: pip did not deliver triton-windows {version} for Python {python} with sha256 "
            f"{sha256}: {reason} (offline, set PIP_FIND_LINKS to a folder that holds the wheel)"
        )
    (wheel,) = folder.glob("*.whl")
    return wheel


def run(command: list[str], environ: dict[str, str]) -> tuple[int, list[str]]:
    """Run pip, show its output as it comes, and return its exit status and lines."""
    lines = []
    with subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, lines


def pip_environment(version: str) -> dict[str, str]:
    """This environment for pip: its index settings kept, rattler-build's own settings dropped."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    settings = {key: os.environ[key] for key in PIP_SETTINGS if os.environ.get(key)}
    links = settings.get("PIP_FIND_LINKS")
    # A folder with the wheel: no network at all. Without it the folder is one place beside others.
    if links and any(Path(links).glob(f"triton_windows-{version}-*.whl")):
        settings["PIP_NO_INDEX"] = "1"
    return environ | settings


def remove_remains(site_packages: Path) -> None:
    """Clear what an earlier run left: pixi builds again in the same folders."""
    for old in (*site_packages.glob("triton"), *site_packages.glob("triton_windows-*.dist-info")):
        shutil.rmtree(old)


def unpack(wheel: Path, site_packages: Path) -> None:
    """Unpack `wheel`; a member that would land outside of `site_packages` stops the build."""
    root = site_packages.resolve()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not (root / name).resolve().is_relative_to(root):
                sys.exit(f"error: {wheel.name} holds {name}, which leaves its folder")
        archive.extractall(root)


def hand_to_conda(dist_info: Path) -> None:
    """Say that conda installed it, and drop RECORD, whose hashes conda does not keep."""
    (dist_info / "RECORD").unlink()
    (dist_info / "INSTALLER").write_text("conda\n")


if __name__ == "__main__":
    main()
