"""A Wine prefix that is made once, and a server kept up: a program then starts in 0.1 s."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from smforge import venvs
from smforge.errors import ToolchainError

COMPILER = "x86_64-w64-mingw32-gcc"
PACKAGES = {"wine": "wine", "wineserver": "wine", COMPILER: "gcc-mingw-w64-x86-64"}
LAYOUT = "1"  # raise it when what is prepared below changes
IDLE_SECONDS = 1800  # the server leaves by itself after this long without a program
_WINDOWS_10 = ("HKCU\\Software\\Wine", "/v", "Version", "/d", "win10", "/f")


def missing() -> str:
    """What this machine lacks for Wine, with the packages that bring it; "" if nothing."""
    lacking = [name for name in PACKAGES if shutil.which(name) is None]
    packages = " ".join(sorted({PACKAGES[name] for name in lacking}))
    return f"no {', '.join(lacking)} here (packages: {packages})" if lacking else ""


def version() -> str:
    """This machine's Wine, as "8.0"; raises ToolchainError where it does not say."""
    done = subprocess.run(["wine", "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"wine-(\S+)", done.stdout)
    if done.returncode or not found:
        raise ToolchainError(f"wine --version failed: {(done.stderr or done.stdout).strip()}")
    return found[1]


def windows_path(path: Path | str) -> str:
    """The path as Windows programs under Wine know it: Z: is the root folder."""
    return "Z:" + str(path).replace("/", "\\")


def cache_folder() -> Path:
    """Where the prefix and what is made for it are kept; raises ToolchainError if others write."""
    cache = venvs.user_cache()
    if not cache.exists():
        cache.mkdir(parents=True, mode=0o700)
    return cache / "wine"


@dataclass(frozen=True)
class Wine:
    """A prepared Wine prefix, in `folder`."""

    folder: Path

    @classmethod
    def prepare(cls) -> Self:
        """The prefix of this Wine version, made on the first call (half a minute) and kept.

        Raises ToolchainError where Wine cannot make it.
        """
        name = re.sub(r"[^\w.-]", "-", f"{version()}-{LAYOUT}")
        wine = cls(cache_folder() / name)
        venvs.build_once(wine.folder, wine._create)
        wine.serve()
        return wine

    def _create(self, folder: Path) -> None:
        venvs.say(f"making a Wine prefix in {folder}: half a minute, once")
        (folder / "home").mkdir(parents=True)
        self.call("wineserver", f"-p{IDLE_SECONDS}")
        for command in (["wineboot", "-i"], ["wine", "reg", "add", *_WINDOWS_10]):
            if code := self.call(*command):
                raise ToolchainError(f"{' '.join(command)} ended with {code}")

    @property
    def environ(self) -> dict[str, str]:
        """Nothing of the caller's but PATH: a program sees the same Windows everywhere."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "WINEPREFIX": str(self.folder / "prefix"),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "winedbg.exe,mscoree,mshtml=",
            "LC_ALL": "C.UTF-8",  # otherwise file names are mapped to ASCII
        }

    def serve(self) -> None:
        """Keep a server up. One that runs is left alone."""
        self.call("wineserver", f"-p{IDLE_SECONDS}")
        # Wine's services start with the first program and hold on to its streams for good: this
        # one has none that anybody waits for.
        self.call("wine", "cmd", "/c", "rem")

    def call(self, *command: str) -> int:
        """The exit code of a program whose output nobody reads; ToolchainError after 300 s."""
        null = subprocess.DEVNULL
        try:
            return subprocess.run(
                command, env=self.environ, stdin=null, stdout=null, stderr=null,
                timeout=300, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            raise ToolchainError(f"{' '.join(command)} did not end within 300 s") from None

    def build(self, source: Path, options: Sequence[str] = ()) -> Path:
        """A C program built for Windows; kept by content. Raises ToolchainError."""
        key = hashlib.sha256(source.read_bytes() + repr(options).encode()).hexdigest()[:12]
        path = self.folder / "programs" / key / f"{source.stem}.exe"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{os.getpid()}.exe")
            command = [COMPILER, "-O1", "-s", "-o", str(part), str(source), *options]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ToolchainError(f"{COMPILER} cannot build {source.name}: {done.stderr[:300]}")
            part.replace(path)
        return path
