"""activation/README.md is what runs: its tables against the scripts; the rules of style."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from smforge import activation_contract, tiers

from .conftest import Bed, program
from .windows_bed import REPO, SCRIPTS, Machine, file

BATCH = sorted(SCRIPTS.glob("*.bat"))
BASH = sorted(SCRIPTS.glob("*.sh"))
contract = activation_contract.load()


def assigned(pattern: str, scripts: list[Path]) -> set[str]:
    """The names that scripts set, temporaries left out."""
    text = "\n".join(path.read_text() for path in scripts)
    found = [match[match.lastindex or 0] for match in re.finditer(pattern, text)]
    return {name for name in found if not name.startswith(("_smf", "_b_"))}


def outputs(where: str) -> set[str]:
    return {v.name for v in contract.variables if v.is_output and v.where in ("both", where)}


def test_bash_sets_what_the_contract_lists() -> None:
    words = re.findall(r"\bexport ([^\n;]+)", "\n".join(path.read_text() for path in BASH))
    names = {n for line in words for n in re.findall(r"(?<![\w$\"{])([A-Z][A-Z_0-9]+)=", line)}
    dynamic = {"CC", "CXX", "CUDA_PATH", "CUDA_HOME"}  # export "$1=..." and "$name=..."
    assert names | dynamic == outputs("linux")


def test_cmd_sets_what_the_contract_lists() -> None:
    child = {"msvc_build.bat", "msvc_write.bat", "msvc_toolset.bat", "caches_build.bat"}
    parent = [path for path in BATCH if path.name not in child]
    # A value is also written back without its quotation marks: set "X=%X:"=%".
    names = assigned(r'\bset "(?!(\w+)=%\1:)([A-Za-z_][\w()]*)=', parent)
    listed = set((SCRIPTS / "msvc_names.txt").read_text().split())
    assert names | listed == outputs("windows")


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in after if before.get(name) != after[name]}


def test_bash_changes_nothing_but_what_the_contract_lists(bed: Bed) -> None:
    bed.gcc()
    bed.toolkit()
    program(bed.bin / "nvcc")  # so that PATH changes too
    result = bed.go(PYTHONPATH="/leaked")
    names = changed(bed.environ(), dict(result.variables)) - {"_", "SHLVL", "PWD", "OLDPWD"}
    assert names == outputs("linux")


def test_cmd_changes_nothing_but_what_the_contract_lists(machine: Machine) -> None:
    file(machine.prefix / "Library/bin/nvcc.exe")
    machine.go()
    plain = machine.wine.cmd("@set", machine.environ(), folder=machine.root).stdout
    before = dict(line.split("=", 1) for line in plain.splitlines() if "=" in line[1:])
    names = changed(before, dict(machine.go(PYTHONPATH="C:\\leaked").variables))
    other = {"VCPKG_ROOT", "VS160COMNTOOLS", "VS180COMNTOOLS"}  # of other editions
    assert names - other == outputs("windows") - other


def test_every_status_of_the_scripts_is_in_the_contract() -> None:
    used = set(re.findall(r'report\.bat" ([\w-]+)', "\n".join(p.read_text() for p in BATCH)))
    used |= set(re.findall(r'_smf_report ([a-z-]+) "', "\n".join(p.read_text() for p in BASH)))
    used |= assigned(r'set "(?:_smf_)?status=([a-z][a-z0-9]*-?[a-z]*)"', BATCH)
    used |= {line.split("=")[0] for line in (SCRIPTS / "reasons.txt").read_text().splitlines()}
    assert used | {"ok", "aborted"} == set(contract.statuses)


def test_every_status_is_in_the_readmes_troubleshooting() -> None:
    readme = (REPO / "README.md").read_text("utf-8")
    missing = [status for status in contract.statuses if f"`{status}`" not in readme]
    assert missing == []


def test_toolsets_are_the_table_of_tiers_toml() -> None:
    lines = (SCRIPTS / "toolsets.txt").read_text().splitlines()
    table = {
        version: f"{cuda.msc_ver[0]},{cuda.msc_ver[1]},{cuda.gcc}"
        for version, cuda in tiers.load().cuda.items()
    }
    assert dict(line.split("=") for line in lines) == table


def test_every_cuda_of_a_stack_has_its_compilers() -> None:
    table = tiers.load()
    versions = {stack.nvcc or stack.cuda for stack in table.stacks.values()} - {""}
    assert versions <= set(table.cuda)


@pytest.mark.parametrize("path", [*BATCH, *BASH], ids=lambda path: path.name)
def test_a_script_is_short_and_plain(path: Path) -> None:
    text = path.read_bytes()
    assert text.isascii()
    assert len(text.splitlines()) <= 60
    assert (b"\r\n" in text) == (path.suffix == ".bat")
    assert text.count(b"\n") == text.count(b"\r\n") or path.suffix == ".sh"


@pytest.mark.parametrize("path", BATCH, ids=lambda path: path.name)
def test_a_batch_file_keeps_to_what_cmd_and_wine_agree_on(path: Path) -> None:
    lines = path.read_text().splitlines()
    code = [line for line in lines if not line.startswith("rem ")]
    child = path.name in ("msvc_build.bat", "caches_build.bat")
    assert lines[0] == "@echo off"
    assert [line for line in code if re.search(r"\bsetlocal\b|&&|\|\||\^$", line)] == []
    unquoted = r"\bset (?!\"|/a )(?!\s*>)[A-Za-z_]"
    assert [line for line in code if re.search(unquoted, line)] == []
    ends = [line for line in code if re.search(r"\bexit\b", line)]
    assert [line for line in ends if not child and "exit /b 0" not in line] == []
    labels = {line.split()[0].lower() for line in code if line.startswith(":")}
    used = {f":{n.lower()}" for line in code for n in re.findall(r"(?:goto|call) :(\w+)", line)}
    assert used == labels
