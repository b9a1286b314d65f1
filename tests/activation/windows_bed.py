"""A stand-in Windows machine under Wine: Visual Studio trees, a profile, a prefix to activate."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from smforge.wine.prefix import windows_path
from tests.windows.wine import Shell, write_batch

REPO = Path(__file__).resolve().parents[2]
# Another folder of scripts: how the mutation tests show that a test notices a broken line.
SCRIPTS = Path(os.environ.get("SMFORGE_TEST_SCRIPTS", REPO / "activation"))
VCVARS = (Path(__file__).with_name("data") / "vcvars64.bat").read_bytes().decode()
LOCK_HASH = "51698ef5b54028cb"
TRITON = "3.7.1.post27-py311_0"
SDK = "Windows Kits/10/Include/10.0.26100.0/um/windows.h"
TOOLSETS = ("14.29.30133", "14.44.35207")
MARK = "==ENVIRONMENT=="


@dataclass(frozen=True)
class Activated:
    """What one cmd that called activate.bat ended with."""

    returncode: int
    output: str
    processes: int | None
    variables: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.variables[name]

    @property
    def status(self) -> str:
        return self.variables["SMFORGE_STATUS"]

    @property
    def reason(self) -> str:
        return self.variables.get("SMFORGE_REASON", "")


def file(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@dataclass
class Machine:
    """Folders that stand for C:\\Program Files (x86), ProgramData, the profile and a prefix."""

    wine: Shell
    root: Path
    profile: str = "profile"
    prefix_name: str = "env"
    cuda: str = "12.8"
    scripts: Path = SCRIPTS
    instances: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files, self.data = self.root / "PF (x86)", self.root / "PD"
        self.local, self.prefix = self.root / self.profile, self.root / self.prefix_name
        for folder in (self.files, self.data, self.local, self.prefix / "conda-meta"):
            folder.mkdir(parents=True)
        self.packages("python-3.11.9-h_0", f"triton-windows-{TRITON}")
        if self.cuda:
            self.packages(f"cuda-version-{self.cuda}-h5d125a7_3")
        self.lock(LOCK_HASH)
        file(self.prefix / "Lib/site-packages/triton/runtime/tcc/tcc.exe")
        for part in ("bin/ptxas.exe", "include/cuda.h", "lib/cuda.lib"):
            file(self.prefix / "Library" / part)
        file(self.files / SDK)
        self.install(self.files / "Microsoft Visual Studio/Installer", "vswhere")
        self.list_instances()

    def install(self, folder: Path, *programs: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in programs:
            shutil.copy(self.wine.program(name), folder / f"{name}.exe")

    def packages(self, *names: str) -> None:
        for name in names:
            (self.prefix / "conda-meta" / f"{name}.json").write_text("{}")

    def lock(self, value: str) -> None:
        """conda-meta/pixi, as pixi 0.77 and the wheel engine write it."""
        record = {
            "manifest_path": "C:\\a & b (c)\\pixi.toml",
            "environment_name": "default",
            "environment_lock_file_hash": value,
            "resolved_platform": {"subdir": "win-64", "virtual_packages": ["__cuda_arch=8.6"]},
        }
        (self.prefix / "conda-meta/pixi").write_text(json.dumps(record, indent=2))

    def list_instances(self) -> None:
        """What vswhere prints."""
        text = "".join(f"{line}\r\n" for line in self.instances)
        path = self.files / "Microsoft Visual Studio/Installer/instances.txt"
        path.write_bytes(text.encode("cp1252"))

    def visual_studio(
        self,
        name: str = "2022/BuildTools",
        toolsets: tuple[str, ...] = TOOLSETS,
        *,
        host: str = "Hostx64/x64",
        extra: str = "",
        children: int = 1,
        below: Path | None = None,
    ) -> Path:
        """One installation with these toolsets; `extra` is a line of its vcvars64.bat."""
        folder = (below or self.files / "Microsoft Visual Studio") / name
        for toolset in toolsets:
            file(folder / "VC/Tools/MSVC" / toolset / "bin" / host / "cl.exe")
        build = folder / "VC/Auxiliary/Build"
        write_batch(build / "Microsoft.VCToolsVersion.default.txt", toolsets[-1] + "\n")
        major = {"2019": "16", "2022": "17"}.get(name.split("/", maxsplit=1)[0], "18")
        values = {"DEFAULT": toolsets[-1], "EXTRA": extra, "CHILDREN": children, "MAJOR": major}
        text = VCVARS
        for key, value in values.items():
            text = text.replace(f"@{key}@", str(value))
        write_batch(build / "vcvars64.bat", text)
        number = f"{len(self.instances):08x}"
        below_data = self.data / "Microsoft/VisualStudio/Packages/_Instances"
        file(below_data / number / "state.json", "{}" * 400)
        self.instances.append(windows_path(folder))
        self.list_instances()
        return folder

    def environ(self, **variables: str) -> dict[str, str]:
        return {
            "ProgramFiles(x86)": windows_path(self.files),
            "ProgramData": windows_path(self.data),
            "LOCALAPPDATA": windows_path(self.local),
            "CONDA_PREFIX": windows_path(self.prefix),
            "PATH": "C:\\windows\\system32;C:\\windows",
            **variables,
        }

    @property
    def call(self) -> str:
        return f'@CALL "{windows_path(self.scripts)}\\activate.bat"\n'

    def go(
        self,
        before: str = "",
        after: str = "",
        *,
        times: int = 1,
        count: bool = True,
        extra: Mapping[str, str] | None = None,
        options: tuple[str, ...] = (),
        **variables: str,
    ) -> Activated:
        """Call activate.bat as pixi's own script does. A variable given as "" is unset."""
        script = f"{before}\n{self.call * times}{after}\n@echo {MARK}\n@set\n"
        result = self.wine.cmd(
            script,
            self.environ(**variables),
            folder=self.root,
            count=count,
            extra=extra,
            options=options,
        )
        noise, _, dump = result.stdout.partition(MARK + "\n")
        values = dict(line.split("=", 1) for line in dump.splitlines() if "=" in line[1:])
        return Activated(result.returncode, noise + result.stderr, result.processes, values)

    def hit(self, **variables: str) -> Activated:
        """Activate twice, the first time without counting; the second must need no process."""
        self.go(count=False, **variables)
        result = self.go(**variables)
        assert (result.returncode, result.output, result.processes) == (0, "", 0)
        return result

    def copy_scripts(self, *programs: str) -> Path:
        """Scripts of its own, to break, or with stand-ins for these programs of System32.

        Wine sets SystemRoot anew for every process, so the stand-ins are named in the copy.
        """
        self.scripts = Path(shutil.copytree(SCRIPTS, self.root / "copy" / "activation"))
        self.install(self.root / "stand-ins", *programs)
        for name in programs:
            for script in self.scripts.glob("*.bat"):
                own = windows_path(self.root / "stand-ins" / f"{name}.exe")
                text = script.read_bytes().decode()
                text = text.replace(f"%SystemRoot%\\System32\\{name}.exe", own)
                script.write_bytes(text.encode())
        return self.scripts

    @property
    def cache_files(self) -> list[Path]:
        return sorted((self.local / "smforge").glob("msvc-*.env"))
