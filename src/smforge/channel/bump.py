"""Move recipes/triton-windows to newer wheels: versions, Pythons, hashes and the pair table.

Which pytorch a new Triton minor pairs with is never guessed: it comes from [pairs] of
envs/tiers.toml or from the caller.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from smforge import tiers
from smforge.errors import ConfigurationError, ToolchainError

PACKAGE = "triton-windows"
PAIR_LINE = re.compile(r'^( +)"(\d+\.\d+)": "(>=[^"]+)",$', re.MULTILINE)
KEYS = ("triton_version", "python", "wheel_sha256")


@dataclass(frozen=True)
class Wheel:
    """One variant of the recipe."""

    version: str  # "3.7.1.post27"
    python: str  # "3.11.*"
    sha256: str

    @property
    def minor(self) -> str:
        """ "3.7" for 3.7.1.post27."""
        return minor_of(self.version)


@dataclass(frozen=True)
class Bump:
    """What would change."""

    files: Mapping[Path, str]  # new text
    new_pairs: Mapping[str, tuple[str, ...]]  # Triton minor -> pytorch minors
    unknown: tuple[str, ...]  # newer versions whose pytorch nobody named

    def diff(self) -> str:
        """The change as a unified diff."""
        parts: list[str] = []
        for path, text in self.files.items():
            old = path.read_text("utf-8").splitlines(keepends=True)
            new, name = text.splitlines(keepends=True), path.name
            parts += difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
        return "".join(parts)


def plan(
    recipe: Path,
    answers: Mapping[str, tuple[str, ...]],
    python: str | None = None,
    versions: Callable[[str], Sequence[str]] | None = None,
    sha256: Callable[[str, str], str] | None = None,
) -> Bump:
    """What a bump of `recipe` changes.

    Args:
        answers: pytorch minors by Triton minor, for those that envs/tiers.toml does not know.
        python: the Python minor of new Triton minors; else that of the newest variant.
        versions: Python minor -> versions with a wheel for win_amd64 (pip's index by default).
        sha256: version, Python minor -> the wheel's hash (pip's download by default).
    """
    versions, sha256 = versions or pip_versions, sha256 or pip_sha256
    known = read_variants(recipe / "variants.yaml")
    newest = max(known, key=lambda wheel: order(wheel.version))
    pairs = known_pairs() | dict(answers)
    have = {wheel.minor for wheel in known}
    chosen = [updated(wheel, versions, sha256) for wheel in known]
    wanted = python or newest.python.removesuffix(".*")
    fresh: dict[str, str] = {}
    for version in sorted(versions(wanted), key=order):
        if order(version) > order(newest.version) and minor_of(version) not in have:
            fresh[minor_of(version)] = version
    added = {minor: version for minor, version in fresh.items() if minor in pairs}
    chosen += [Wheel(v, f"{wanted}.*", sha256(v, wanted)) for v in added.values()]
    files = {
        recipe / "variants.yaml": write_variants(recipe / "variants.yaml", chosen),
        recipe / "recipe.yaml": write_pairs(
            recipe / "recipe.yaml", {minor: pairs[minor] for minor in added}
        ),
        recipe / "README.md": write_readme(recipe / "README.md", known, chosen, pairs),
    }
    return Bump(
        files={path: text for path, text in files.items() if text != path.read_text("utf-8")},
        new_pairs={m: pairs[m] for m in added if m not in known_pairs()},
        unknown=tuple(version for minor, version in fresh.items() if minor not in pairs),
    )


def updated(
    wheel: Wheel, versions: Callable[[str], Sequence[str]], sha256: Callable[[str, str], str]
) -> Wheel:
    """The newest wheel of the same Triton minor and Python."""
    python = wheel.python.removesuffix(".*")
    same = [v for v in versions(python) if v.startswith(f"{wheel.minor}.")]
    newest = max([wheel.version, *same], key=order)
    if newest == wheel.version:
        return wheel
    return replace(wheel, version=newest, sha256=sha256(newest, python))


def minor_of(version: str) -> str:
    """ "3.7" for 3.7.1.post27."""
    return ".".join(version.split(".")[:2])


def order(version: str) -> tuple[int, ...]:
    """A key that sorts 3.10.0.post2 after 3.9.1."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def known_pairs() -> dict[str, tuple[str, ...]]:
    """[pairs] of envs/tiers.toml the other way round: Triton minor -> pytorch minors."""
    pairs: dict[str, tuple[str, ...]] = {}
    for torch, triton in tiers.load().pairs.items():
        pairs[triton] = (*pairs.get(triton, ()), torch)
    return pairs


def read_variants(path: Path) -> list[Wheel]:
    """The wheels of variants.yaml, in its order."""
    import rattler_build as rb

    table = rb.VariantConfig.from_file(path).to_dict()
    columns = [table.get(key, []) for key in KEYS]
    if not columns[0] or len({len(column) for column in columns}) != 1:
        raise ConfigurationError(f"{path}: expected {', '.join(KEYS)}, of equal length")
    return [Wheel(*row) for row in zip(*columns, strict=True)]


def write_variants(path: Path, wheels: Sequence[Wheel]) -> str:
    """variants.yaml with these wheels, its comments kept."""
    lines, out, key = path.read_text("utf-8").splitlines(), [], ""
    for line in lines:
        if line.startswith("  - ") and key in KEYS:
            continue
        out.append(line)
        key = line.removesuffix(":")
        if key in KEYS:
            values = [(wheel.version, wheel.python, wheel.sha256) for wheel in wheels]
            out += [f"  - {row[KEYS.index(key)]}" for row in values]
    return "\n".join(out) + "\n"


def write_pairs(path: Path, new: Mapping[str, tuple[str, ...]]) -> str:
    """recipe.yaml with the new rows at the end of its pair table."""
    text = path.read_text("utf-8")
    rows = list(PAIR_LINE.finditer(text))
    if not rows:
        raise ConfigurationError(f'{path}: no pair table (lines such as "3.7": ">=2.12,<2.14a0",)')
    end, indent = rows[-1].end(), rows[-1][1]
    added = "".join(f'\n{indent}"{minor}": "{bounds(torch)}",' for minor, torch in new.items())
    return text[:end] + added + text[end:]


def bounds(torch: Sequence[str]) -> str:
    """The match spec of neighbouring pytorch minors: ">=2.12,<2.14a0" for 2.12 and 2.13."""
    low, high = min(torch, key=order), max(torch, key=order)
    major, minor = order(high)
    return f">={low},<{major}.{minor + 1}a0"


def write_readme(
    path: Path, old: Sequence[Wheel], new: Sequence[Wheel], pairs: Mapping[str, tuple[str, ...]]
) -> str:
    """README.md with one row of its table for each wheel."""
    text = path.read_text("utf-8")
    for before, after in zip(old, new, strict=False):
        text = text.replace(f"| {before.version} |", f"| {after.version} |")
    last = next(
        (line for line in text.splitlines() if f"| {new[len(old) - 1].version} |" in line), ""
    )
    for wheel in new[len(old) :]:
        torch = ", ".join(pairs[wheel.minor])
        row = f"| {wheel.version} | {wheel.python.removesuffix('.*')} | {torch} |"
        text = text.replace(last, f"{last}\n{row}")
        last = row
    return text


def pip_versions(python: str) -> list[str]:
    """The versions that pip's index has as a win_amd64 wheel for this Python, pre-releases not."""
    output = pip("index", "versions", PACKAGE, "--json", *for_windows(python))
    found: list[str] = json.loads(output)["versions"]
    return found


def pip_sha256(version: str, python: str) -> str:
    """The sha256 of the wheel that pip downloads."""
    with tempfile.TemporaryDirectory() as folder:
        pip("download", "--no-deps", *for_windows(python), "-d", folder, f"{PACKAGE}=={version}")
        (wheel,) = Path(folder).glob("*.whl")
        return hashlib.sha256(wheel.read_bytes()).hexdigest()


def for_windows(python: str) -> list[str]:
    """pip's options for a win_amd64 wheel of a CPython minor."""
    return ["--only-binary=:all:", "--platform=win_amd64", f"--python-version={python}"]


def pip(*words: str) -> str:
    """pip's standard output; ToolchainError with its last line when it fails."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        reason = (run.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ToolchainError(f"pip {words[0]} {PACKAGE}: {reason}")
    return run.stdout
