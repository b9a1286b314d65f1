"""Run Windows programs and batch files under Wine, quickly: one prefix, one server kept up."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")
COMPILER = "x86_64-w64-mingw32-gcc"
PACKAGES = {"wine": "wine", "wineserver": "wine", COMPILER: "gcc-mingw-w64-x86-64"}
LAYOUT = "1"  # raise it when what is prepared below changes
IDLE_SECONDS = 1800  # the server leaves by itself after this long without a program


@dataclass(frozen=True)
class Result:
    """What a Windows program ended with; `processes` is None unless they were counted."""

    returncode: int
    stdout: str
    stderr: str
    processes: int | None


def missing() -> str | None:
    """What this machine lacks for Wine tests, with the packages that bring it; None if nothing."""
    lacking = [name for name in PACKAGES if shutil.which(name) is None]
    packages = " ".join(sorted({PACKAGES[name] for name in lacking}))
    return f"no {', '.join(lacking)} here (packages: {packages})" if lacking else None


def windows_path(path: Path | str) -> str:
    """The path as Windows programs under Wine know it: Z: is the root folder."""
    return "Z:" + str(path).replace("/", "\\")


def write_batch(path: Path, text: str) -> Path:
    """A batch file with the line ends that cmd wants; one byte a character, as Wine reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.replace("\r\n", "\n").replace("\n", "\r\n").encode("cp1252"))
    return path


def cache_folder() -> Path:
    """Where what is slow to make is kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "smforge-tests"


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Two test runs of one user prepare the same folder one after the other."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Wine:
    """A prepared Wine prefix."""

    folder: Path

    @classmethod
    def prepare(cls) -> Wine:
        """The prefix of this Wine version, made on the first call (half a minute) and kept."""
        done = subprocess.run(["wine", "--version"], capture_output=True, text=True, check=True)
        version = re.sub(r"[^\w.-]", "-", done.stdout.split()[0])
        wine = cls(cache_folder() / f"{version}-{LAYOUT}")
        with only_one(wine.folder):
            marker = wine.folder / "complete"
            if not marker.exists():
                shutil.rmtree(wine.folder, ignore_errors=True)
                (wine.folder / "home").mkdir(parents=True)
                version_key = ["HKCU\\Software\\Wine", "/v", "Version", "/d", "win10", "/f"]
                wine.call("wineserver", f"-p{IDLE_SECONDS}")
                for command in (["wineboot", "-i"], ["wine", "reg", "add", *version_key]):
                    if code := wine.call(*command):
                        raise RuntimeError(f"{' '.join(command)} ended with {code}")
                marker.touch()
            wine.serve()
        return wine

    @property
    def environ(self) -> dict[str, str]:
        """Nothing of the caller's but PATH: a test sees the same Windows everywhere."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "WINEPREFIX": str(self.folder / "prefix"),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "winedbg.exe,mscoree,mshtml=",
            "LC_ALL": "C.UTF-8",  # otherwise file names are mapped to ASCII
        }

    def serve(self) -> None:
        """Keep a server up: a call then takes a tenth of a second. One that runs is left alone."""
        self.call("wineserver", f"-p{IDLE_SECONDS}")
        # Wine's services start with the first program and hold on to its streams for good: this
        # one has none that anybody waits for.
        self.call("wine", "cmd", "/c", "rem")

    def call(self, *command: str) -> int:
        null = subprocess.DEVNULL
        return subprocess.run(
            command,
            env=self.environ,
            stdin=null,
            stdout=null,
            stderr=null,
            timeout=300,
            check=False,
        ).returncode

    def program(self, name: str, *options: str) -> Path:
        """`programs/<name>.c` built for Windows; kept by content."""
        source = PROGRAMS / f"{name}.c"
        key = hashlib.sha256(source.read_bytes() + repr(options).encode()).hexdigest()[:12]
        path = self.folder / "programs" / key / f"{name}.exe"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{os.getpid()}.exe")
            subprocess.run([COMPILER, "-O1", "-s", "-o", part, source, *options], check=True)
            part.replace(path)
        return path

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
