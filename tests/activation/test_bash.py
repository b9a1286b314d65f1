"""activation/activate.sh, sourced by bash on stand-in machines."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from .conftest import GCC, LOCK_HASH, REPO, Bed, Result, program
from .windows_bed import SCRIPTS

HELPERS = ("activate.sh", "stack.sh", "compiler.sh", "toolkit.sh", "caches.sh")


def test_the_environments_compiler_is_taken(bed: Bed) -> None:
    bed.gcc()
    result = bed.go()
    assert result["CC"] == f"{bed.prefix}/{GCC}gcc"
    assert result["CXX"] == f"{bed.prefix}/{GCC}g++"
    assert (result["SMFORGE_STATUS"], result["SMFORGE_REASON"]) == ("ok", "")


def test_nothing_is_printed_and_nothing_fails(bed: Bed) -> None:
    bed.gcc()
    result = bed.go("set -eu", CC="/nowhere/cc", PYTHONPATH="/leaked")
    assert (result.returncode, result.output) == (0, "")


def test_the_compiler_that_a_package_set_stays(bed: Bed) -> None:
    bed.gcc()
    own = str(program(bed.prefix / (GCC + "cc")))
    result = bed.go(CC=own)
    assert (result["CC"], result["SMFORGE_REASON"]) == (own, "")


def test_another_compiler_gives_way_to_the_environments_and_is_named(bed: Bed) -> None:
    bed.gcc()
    other = str(program(bed.root / "clang"))
    result = bed.go(CC=other)
    assert result["CC"] == f"{bed.prefix}/{GCC}gcc"
    assert result["SMFORGE_STATUS"] == "ok"
    assert f"CC={other} is not this environment's" in result["SMFORGE_REASON"]


def test_without_a_compiler_of_its_own_the_systems_is_found_and_CC_stays_unset(bed: Bed) -> None:
    bed.system_gcc()
    result = bed.go()
    assert result["SMFORGE_STATUS"] == "ok"
    assert not {"CC", "CXX"} & set(result.variables)


def test_without_a_compiler_of_its_own_CC_stays_as_it_came(bed: Bed) -> None:
    bed.system_gcc()
    other = str(program(bed.root / "clang"))
    result = bed.go(CC=other, CXX="g++")
    assert (result["CC"], result["CXX"], result["SMFORGE_REASON"]) == (other, "g++", "")


def test_no_compiler_at_all_is_no_gcc(bed: Bed) -> None:
    result = bed.go()
    assert result["SMFORGE_STATUS"] == "no-gcc"
    assert "install the system's gcc and g++" in result["SMFORGE_REASON"]


def test_a_pattern_in_PATH_is_a_name_as_any_other(bed: Bed) -> None:
    for name in ("gcc", "g++"):
        program(bed.root / "folder" / name)
    assert bed.go(PATH=f"{bed.root}/fold*:{bed.bin}")["SMFORGE_STATUS"] == "no-gcc"


def test_no_cxx_compiler_is_no_gcc(bed: Bed) -> None:
    program(bed.bin / "gcc")
    result = bed.go()
    assert (result["SMFORGE_STATUS"], result["SMFORGE_REASON"][:7]) == ("no-gcc", "no g++:")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("/usr", "is a folder"),
        ("/nowhere/gcc", "names no program"),
        ("ccache gcc", "is a list"),
        ("gcc;", "is a list"),
    ],
    ids=["folder", "missing", "list", "semicolon"],
)
def test_a_bad_CC_is_replaced_and_named(bed: Bed, value: str, why: str) -> None:
    bed.system_gcc()
    result = bed.go(CC=value)
    assert (result["CC"], result["SMFORGE_STATUS"]) == (f"{bed.bin}/gcc", "ok")
    assert f"CC={value} {why}" in result["SMFORGE_REASON"]


def test_a_bad_CC_without_another_is_bad_cc(bed: Bed) -> None:
    result = bed.go(CC="/nowhere/gcc")
    assert (result["CC"], result["SMFORGE_STATUS"]) == ("/nowhere/gcc", "bad-cc")
    assert "run: unset CC" in result["SMFORGE_REASON"]


def test_a_gcc_newer_than_nvcc_accepts_is_named(bed: Bed) -> None:
    bed.gcc("15.2.0")
    bed.toolkit()
    result = bed.go()
    assert result["SMFORGE_STATUS"] == "no-gcc"
    assert "gcc 15 is newer than the nvcc of CUDA 12.9 accepts (14)" in result["SMFORGE_REASON"]


def test_the_newest_gcc_that_nvcc_accepts_is_fine(bed: Bed) -> None:
    bed.gcc("14.3.0")
    bed.toolkit()
    assert bed.go()["SMFORGE_STATUS"] == "ok"


def test_CUDA_PATH_and_CUDA_HOME_are_the_prefix(bed: Bed) -> None:
    bed.gcc()
    bed.toolkit()
    result = bed.go()
    assert result["CUDA_PATH"] == result["CUDA_HOME"] == str(bed.prefix)


@pytest.mark.parametrize("part", ["ptxas", "cuda.h", "libcudart.so"])
def test_half_a_toolkit_is_none(bed: Bed, part: str) -> None:
    bed.gcc()
    bed.toolkit()
    next(bed.prefix.rglob(part)).unlink()
    assert not {"CUDA_PATH", "CUDA_HOME"} & set(bed.go().variables)


def test_another_toolkit_in_CUDA_HOME_is_replaced_and_named(bed: Bed) -> None:
    bed.gcc()
    bed.toolkit()
    result = bed.go(CUDA_HOME="/usr/local/cuda")
    assert result["CUDA_HOME"] == str(bed.prefix)
    assert (
        "CUDA_HOME=/usr/local/cuda is another CUDA toolkit (not used)" in result["SMFORGE_REASON"]
    )


def test_another_toolkit_is_named_where_the_environment_has_none(bed: Bed) -> None:
    bed.gcc()
    result = bed.go(CUDA_PATH="/usr/local/cuda")
    assert result["CUDA_PATH"] == "/usr/local/cuda"
    assert "CUDA_PATH=/usr/local/cuda is another CUDA toolkit" in result["SMFORGE_REASON"]
    assert "(not used)" not in result["SMFORGE_REASON"]


def test_another_nvcc_on_PATH_is_shadowed_and_named(bed: Bed) -> None:
    bed.gcc()
    bed.toolkit()
    other = program(bed.root / "cuda-11" / "nvcc").parent
    result = bed.go(PATH=f"{other}:{bed.bin}:{bed.prefix}/bin")
    assert result["PATH"].startswith(f"{bed.prefix}/bin:{other}:")
    assert f"{other}/nvcc is another CUDA toolkit's" in result["SMFORGE_REASON"]


def test_PATH_stays_where_the_environments_nvcc_is_first(bed: Bed) -> None:
    bed.gcc()
    bed.toolkit()
    path = f"{bed.prefix}/bin:{bed.bin}"
    assert bed.go(PATH=path)["PATH"] == path


def test_nvcc_is_told_the_compiler_once(bed: Bed) -> None:
    bed.gcc()
    bed.toolkit()
    result = bed.go(times=2, NVCC_PREPEND_FLAGS="-lineinfo")
    assert result["NVCC_PREPEND_FLAGS"] == f"-ccbin={bed.prefix}/{GCC}g++ -lineinfo"


def test_a_compiler_that_nvcc_was_told_stays(bed: Bed) -> None:
    bed.gcc()
    bed.toolkit()
    assert bed.go(NVCC_PREPEND_FLAGS="-ccbin=/x/g++")["NVCC_PREPEND_FLAGS"] == "-ccbin=/x/g++"


def test_PYTHONPATH_is_the_workspaces_source_and_a_leaked_one_is_named(bed: Bed) -> None:
    bed.gcc()
    result = bed.go(PYTHONPATH="/leaked")
    assert result["PYTHONPATH"] == str(REPO / "src")
    assert result["SMFORGE_REASON"] == "PYTHONPATH=/leaked is left out"


def test_PYTHONPATH_is_untouched_outside_a_workspace(bed: Bed, tmp_path: Path) -> None:
    bed.gcc()
    bed.script = shutil.copytree(REPO / "activation", tmp_path / "a" / "activation") / "activate.sh"
    assert bed.go(PYTHONPATH="/mine")["PYTHONPATH"] == "/mine"


def test_python_reads_utf8_and_no_packages_of_the_user(bed: Bed) -> None:
    bed.gcc()
    result = bed.go()
    assert (result["PYTHONUTF8"], result["PYTHONNOUSERSITE"]) == ("1", "1")


def test_the_caches_lie_below_the_home_and_are_the_users_alone(bed: Bed) -> None:
    bed.gcc()
    result = bed.go("umask 022")
    root = bed.home / ".cache" / "smforge"
    assert result["TORCHINDUCTOR_CACHE_DIR"] == f"{root}/i-{LOCK_HASH[:8]}"
    assert result["TRITON_CACHE_DIR"] == f"{root}/t-{LOCK_HASH[:8]}"
    assert root.stat().st_mode & 0o777 == 0o700


def test_XDG_CACHE_HOME_moves_the_caches(bed: Bed) -> None:
    bed.gcc()
    result = bed.go(XDG_CACHE_HOME=str(bed.root / "x"))
    assert result["TRITON_CACHE_DIR"].startswith(f"{bed.root}/x/smforge/t-")


def test_other_packages_have_other_caches(bed: Bed) -> None:
    bed.gcc()
    before = bed.go()["TRITON_CACHE_DIR"]
    bed.lock("0" * 16)
    assert bed.go()["TRITON_CACHE_DIR"] != before


def test_another_compiler_has_other_caches(bed: Bed) -> None:
    bed.system_gcc()
    before = bed.go()["TRITON_CACHE_DIR"]
    assert bed.go(CC=str(program(bed.root / "clang-16")))["TRITON_CACHE_DIR"] != before


def test_an_environment_of_conda_is_keyed_by_its_history(bed: Bed) -> None:
    bed.gcc()
    meta = bed.prefix / "conda-meta"
    (meta / "pixi").unlink()
    (meta / "history").write_text("==> 2026-11-21 09:10:11 <==\n+conda-forge::python\n")
    result = bed.go()
    assert result["SMFORGE_STATUS"] == "ok"
    assert result["TRITON_CACHE_DIR"].endswith("/t-h49-20261121091011")


def refused(bed: Bed, **variables: str) -> str:
    bed.gcc()
    result = bed.go(**variables)
    assert (result.returncode, result.output) == (0, "")
    assert result["SMFORGE_STATUS"] == "cache-refused"
    assert not {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"} & set(result.variables)
    assert "set XDG_CACHE_HOME" in result["SMFORGE_REASON"]
    return result["SMFORGE_REASON"]


def test_a_cache_folder_with_a_blank_is_refused(bed: Bed) -> None:
    assert "holds a blank" in refused(bed, XDG_CACHE_HOME=str(bed.root / "my cache"))


def test_without_a_home_there_is_no_cache(bed: Bed) -> None:
    assert "neither XDG_CACHE_HOME nor HOME" in refused(bed, HOME="")


def test_a_cache_folder_that_cannot_be_made_is_refused(bed: Bed) -> None:
    (bed.home / ".cache").write_text("a file")
    assert "cannot be made" in refused(bed)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
@pytest.mark.parametrize("name", [".cache/smforge", f".cache/smforge/t-{LOCK_HASH[:8]}"])
def test_a_cache_of_somebody_else_is_refused(bed: Bed, name: str) -> None:
    folder = bed.home / name
    folder.mkdir(parents=True)
    os.chown(folder, 12345, 12345)
    assert "belongs to somebody else" in refused(bed)


@pytest.mark.parametrize("prefix", ["", "/nowhere"], ids=["unset", "missing"])
def test_no_prefix(bed: Bed, prefix: str) -> None:
    result = bed.go("set -eu", CONDA_PREFIX=prefix)
    assert (result.returncode, result.output) == (0, "")
    assert result["SMFORGE_STATUS"] == "no-prefix"
    assert "run: pixi install" in result["SMFORGE_REASON"]


@pytest.mark.parametrize("helper", HELPERS[1:])
def test_a_broken_helper_leaves_the_status_aborted_and_the_shell_alive(
    bed: Bed, tmp_path: Path, helper: str
) -> None:
    folder = shutil.copytree(SCRIPTS, tmp_path / "copy")
    (folder / helper).write_text("if then\n")
    bed.script = folder / "activate.sh"
    result = bed.go("set -eu", after="export REACHED=1")
    assert (result.returncode, result.output) == (0, "")
    assert (result["SMFORGE_STATUS"], result["REACHED"]) == ("aborted", "1")


def settings(result: Result) -> dict[str, str]:
    return {k: v for k, v in result.variables.items() if k not in ("_", "SHLVL", "SMFORGE_REASON")}


def test_twice_and_thrice_change_nothing(bed: Bed) -> None:
    bed.gcc()
    bed.toolkit()
    once = settings(bed.go())
    assert settings(bed.go(times=2)) == settings(bed.go(times=3)) == once


def test_another_environment_activated_inside_is_whole(bed: Bed, tmp_path: Path) -> None:
    bed.gcc()
    bed.toolkit()
    other = Bed(tmp_path / "other")
    other.gcc()
    other.toolkit()
    other.lock("f" * 16)
    after = f"export CONDA_PREFIX={other.prefix} PATH={other.prefix}/bin:$PATH\n. '{bed.script}'"
    result = bed.go(after=after, PATH=f"{bed.prefix}/bin:{bed.bin}")
    assert result["CC"] == f"{other.prefix}/{GCC}gcc"
    assert result["CUDA_HOME"] == str(other.prefix)
    assert result["TRITON_CACHE_DIR"].endswith("/t-ffffffff")
    assert result["SMFORGE_STATUS"] == "ok"


def test_nothing_of_its_own_is_left(bed: Bed) -> None:
    bed.gcc()
    left = bed.go(
        after="export LEFT=\"$(set | grep -o '^_smf[a-z_]*' )\" MASK=$(umask)",
        before="umask 027",
        PATH=f"{bed.bin}:/usr/bin:/bin",
    )
    assert (left["LEFT"], left["MASK"]) == ("", "0027")


@pytest.mark.parametrize("option", ["nounset", "errexit", "noglob", "nullglob", "pipefail"])
def test_the_shells_options_stay(bed: Bed, option: str) -> None:
    bed.gcc()
    bed.toolkit()
    switch = "shopt -s" if option == "nullglob" else "set -o"
    test = "shopt -q" if option == "nullglob" else "[[ -o"
    end = "" if option == "nullglob" else " ]]"
    after = f"if {test} {option}{end}; then export KEPT=1; fi"
    result = bed.go(f"{switch} {option}", after)
    assert (result["KEPT"], result["SMFORGE_STATUS"]) == ("1", "ok")


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "a (x86) b",
        "a!b",
        "a & b",
        "a^b",
        "a=b,c;d",
        "it's",
        "caf\xe9",
        "$HOME",
        "a*b",
        "`x`",
        "x" * 190,
    ],
)
def test_odd_prefixes(bed: Bed, name: str) -> None:
    bed.gcc()
    bed.toolkit()
    bed.prefix = bed.prefix.rename(bed.root / name)
    result = bed.go()
    assert (result.returncode, result.output) == (0, "")
    assert result["CC"] == f"{bed.prefix}/{GCC}gcc"
    assert result["CUDA_HOME"] == str(bed.prefix)
    assert (result["SMFORGE_STATUS"], result["SMFORGE_REASON"]) == ("ok", "")


def test_the_reason_is_one_line(bed: Bed) -> None:
    bed.gcc()
    assert "\n" not in bed.go(CC="/nowhere\n/cc", PYTHONPATH="/a\n/b")["SMFORGE_REASON"]


def test_values_are_never_run(bed: Bed) -> None:
    bed.gcc()
    bed.toolkit()
    evil = "$(touch pwned)`touch pwned`; touch pwned"
    bed.packages(f"cuda-version-{evil}-0")
    bed.go(
        CC=evil,
        CUDA_HOME=evil,
        PYTHONPATH=evil,
        NVCC_PREPEND_FLAGS=evil,
        PATH=f"{bed.bin}:/usr/bin:/bin",
    )
    assert list(bed.root.rglob("pwned")) == []


def count(bed: Bed, namespace: list[str], **variables: str) -> int:
    """Processes that one activation started: pids count up by one in a namespace of one's own."""
    result = bed.go(wrapper=namespace, after="export LAST=$(echo $BASHPID)", **variables)
    return int(result["LAST"]) - 2


def test_no_process_is_started_once_the_cache_folder_exists(bed: Bed, namespace: list[str]) -> None:
    bed.gcc()
    bed.toolkit()
    assert count(bed, namespace) > 0
    assert count(bed, namespace) == 0


def test_no_process_is_started_with_the_systems_compiler(bed: Bed, namespace: list[str]) -> None:
    bed.system_gcc()
    bed.go()
    assert count(bed, namespace, CC="/nowhere/gcc", CUDA_HOME="/x", PYTHONPATH="/y") == 0
