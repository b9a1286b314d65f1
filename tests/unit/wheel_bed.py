"""A small workspace with wheels of its own: real venv and pip build it without a network."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ENGINE = REPOSITORY / "src" / "smforge" / "wheels"

MANIFEST = """\
[workspace]
name = "bed"
version = "1.0"
channels = ["conda-forge"]
platforms = [
  { name = "linux-64-sm90", platform = "linux-64", cuda = { driver = "12.0", arch = "9.0" } },
  { name = "linux-64-cpu", platform = "linux-64" },
]

[target.unix.activation]
scripts = ["activate.sh"]

[activation.env]
PLAIN = "everywhere"
SHADOWED = "general"

[target."*-cpu".activation.env]
SMFORGE_TIER = "cpu"
SHADOWED = "cpu"

[tasks]
show = { cmd = "python show.py", description = "Print what the task sees" }
five = { cmd = "python exit.py 5" }
after = { cmd = "python show.py after", depends-on = ["first"] }
first = { cmd = "python touch.py first" }
never = { cmd = "python touch.py never", depends-on = ["first", "five"] }
pair = { depends-on = ["first", "after"] }
named = { cmd = "python show.py", env = { PLAIN = "task" } }
circle = { cmd = "python show.py", depends-on = ["circle2"] }
circle2 = { cmd = "python show.py", depends-on = ["circle"] }

[feature.auto]
platforms = ["linux-64-sm90", "linux-64-cpu"]

[feature.sm90]
platforms = ["linux-64-sm90"]

[feature.cpu]
platforms = ["linux-64-cpu"]

[feature.dev]
platforms = ["linux-64-cpu"]

[feature.dev.tasks]
_check = { cmd = "checker" }
check = { depends-on = ["_check"] }

[environments]
default = ["auto"]
sm90 = ["sm90"]
cpu = ["cpu"]
dev = ["dev"]
"""
PROGRAMS = {
    "show.py": "import json, os, sys, torch\n"
    "json.dump({'argv': sys.argv[1:], 'cwd': os.getcwd(), 'env': dict(os.environ),\n"
    "  'torch': torch.__version__, 'executable': sys.executable, 'prefix': sys.prefix},\n"
    "  sys.stdout)\n",
    "exit.py": "import sys\nsys.exit(int(sys.argv[1]))\n",
    "touch.py": "import pathlib, sys\npathlib.Path(sys.argv[1] + '.ran').touch()\n",
    "activate.sh": "echo noise\nexport FROM_SCRIPT=$CONDA_PREFIX\nexport SHADOWED=script\n"
    "unset OUTER\n",
}


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> tuple[Path, str]:
    """A pure wheel NAME-VERSION of `files`; its path and sha256."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    content = files | {f"{info}/METADATA": metadata, f"{info}/WHEEL": tags}
    record = ""
    for path, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        record += f"{path},sha256={digest.rstrip('=')},{len(text.encode())}\n"
    content[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    folder.mkdir(exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
    return wheel, hashlib.sha256(wheel.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Bed:
    """A workspace at `root`; its wheels and its cache lie beside it."""

    root: Path

    @property
    def home(self) -> Path:
        """Where wheels and the user's cache of the test are."""
        return self.root.parent

    @property
    def environments(self) -> Path:
        """Folder of the built environments."""
        return self.root / ".smforge" / "envs"

    def pin(self, torch: str, sha256: str, stack: str = "2.13.0") -> None:
        """Pin the fake torch as `stack`."""
        file = self.root / "envs" / "wheels" / f"{stack}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        version = f"3.{sys.version_info[1]}"
        file.write_text(
            f"# download linux-64 {version}: 4200000\n\ntorch=={torch} --hash=sha256:{sha256}\n"
        )

    def command(self, *words: str) -> list[str]:
        """The engine's command line."""
        return [sys.executable, str(ENGINE), *words]

    def environ(self, **changes: str) -> dict[str, str]:
        """No card, no index, no variables of the outer environment that matter here."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "SMFORGE_"))}
        return kept | {
            "CONDA_OVERRIDE_CUDA": "",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": (self.home / "wheels").as_uri(),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "OUTER": "kept",
            **changes,
        }

    def run(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """Run the engine in the workspace."""
        return subprocess.run(
            self.command(*words),
            cwd=self.root,
            env=self.environ(**changes),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


def make_bed(root: Path) -> Bed:
    """A new workspace at `root`, pinned to a fake torch 2.13.0."""
    root.mkdir(parents=True)
    (root / "pixi.toml").write_text(MANIFEST)
    for name, text in PROGRAMS.items():
        (root / name).write_text(text)
    bed = Bed(root)
    torch = {"torch/__init__.py": "__version__ = '2.13.0'\n"}
    _, sha256 = make_wheel(bed.home / "wheels", "torch", "2.13.0", torch)
    bed.pin("2.13.0", sha256)
    return bed
