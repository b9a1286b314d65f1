"""`smforge kernel`: a Jupyter kernel that starts in an activated environment.

A notebook's Python is started by Jupyter, not by pixi: no compiler, no caches, no CUDA. The kernel
that this installs goes through pixi (or pixiw), so torch.compile works without a developer prompt.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smforge import tiers
from smforge.errors import ConfigurationError
from smforge.tables import in_workspace, workspace

LAUNCH = ("python", "-m", "ipykernel_launcher", "-f", "{connection_file}")
EPILOG = """\
examples:
  ./pixiw run smforge kernel install               the tier that this machine gets
  ./pixiw run smforge kernel install -e sm86       one tier
  ./pixiw run smforge kernel remove -e sm86
JUPYTER_DATA_DIR is respected; otherwise the kernel is installed for this user."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "kernel",
        help="install a Jupyter kernel that starts in the activated environment",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for name, action in (("install", install), ("remove", remove)):
        child = actions.add_parser(name, help=f"{name} the kernel of an environment")
        child.add_argument(
            "-e", "--environment", default="default", help="environment of pixi.toml (%(default)s)"
        )
        child.set_defaults(run=lambda args, action=action: action(args.environment))


def install(environment: str) -> int:
    """Write the kernel of `environment`; one that smforge wrote before is replaced."""
    check(environment)
    target = folder(environment, os.environ)
    if (target / "kernel.json").exists() and not is_ours(target):
        raise ConfigurationError(f"{target} is another program's kernel: remove it first")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=".smforge-", dir=target.parent))
    (part / "kernel.json").write_text(json.dumps(spec(environment), indent=2) + "\n", "utf-8")
    part.chmod(0o755)
    if target.exists():
        shutil.rmtree(target)
    part.replace(target)
    print(f"installed {target}")
    print(f'choose "{spec(environment)["display_name"]}" in Jupyter')
    return 0


def remove(environment: str) -> int:
    """Remove the kernel of `environment`."""
    check(environment)
    target = folder(environment, os.environ)
    if not target.exists():
        raise ConfigurationError(f"no kernel {target.name} in {target.parent}: nothing to remove")
    if not is_ours(target):
        raise ConfigurationError(f"{target} is another program's kernel: it stays")
    shutil.rmtree(target)
    print(f"removed {target}")
    return 0


def check(environment: str) -> None:
    """ConfigurationError unless this is a checkout and the name can be an environment's."""
    if not in_workspace():
        raise ConfigurationError(
            "a kernel starts a workspace's environment: run this in a checkout"
        )
    known = ["default", *tiers.load().tiers]
    if not re.fullmatch(r"[a-z0-9-]+", environment) or environment not in known:
        raise ConfigurationError(f"no environment '{environment}'; there are {', '.join(known)}")


def spec(environment: str) -> dict[str, Any]:
    """The content of kernel.json."""
    name = "smforge" if environment == "default" else f"smforge {environment}"
    return {
        "argv": [*launcher(), "-e", environment, *LAUNCH],
        "display_name": f"Python ({name})",
        "language": "python",
        # A signal would reach the launcher too; on Windows ipykernel knows no messages for it.
        "interrupt_mode": "signal" if sys.platform == "win32" else "message",
        "metadata": {"smforge": {"manifest": str(workspace() / "pixi.toml")}},
    }


def launcher() -> list[str]:
    """How to start a program in an environment from any folder: pixi on PATH, else pixiw."""
    root = workspace()
    pixi = shutil.which("pixi")
    if pixi and not os.environ.get("SMFORGE_WHEELS"):
        return ["pixi", "run", "--manifest-path", str(root / "pixi.toml")]
    wrapper = root / ("pixiw.bat" if sys.platform == "win32" else "pixiw")
    return [str(wrapper), "run", "--manifest-path", str(root / "pixi.toml")]


def folder(environment: str, environ: Mapping[str, str]) -> Path:
    """Where Jupyter looks for this user's kernels (jupyter_core's own rule)."""
    if environ.get("JUPYTER_DATA_DIR"):
        data = Path(environ["JUPYTER_DATA_DIR"])
    elif sys.platform == "win32":
        data = Path(environ.get("APPDATA") or Path.home()) / "jupyter"
    else:
        share = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        data = Path(share) / "jupyter"
    name = "smforge" if environment == "default" else f"smforge-{environment}"
    return data / "kernels" / name


def is_ours(target: Path) -> bool:
    """Whether smforge wrote the kernel in this folder."""
    try:
        written = json.loads((target / "kernel.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return "smforge" in written.get("metadata", {})
