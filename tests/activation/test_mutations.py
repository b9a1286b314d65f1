"""Every guard of the scripts has a test that notices when it is gone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .windows_bed import REPO

GONE = "rem"

# (file, text, what stands in its place, the test that must fail)
BATCH = [
    ("activate.bat", 'if not defined _smf_long set "PATH=', GONE, "quotation_marks_in_PATH"),
    ("activate.bat", 'if defined CC set "CC=', GONE, "a_bad_CC_is_replaced[quotes]"),
    ("activate.bat", 'if defined SMFORGE_VC set "', GONE, "values_are_never_run"),
    ("activate.bat", "if defined _smf_lost goto :clear", GONE, "a_missing_helper[stack]"),
    ("activate.bat", "for %%N in (st had", GONE + " x (", "nothing_of_its_own_is_left"),
    ("msvc.bat", 'if "%_smf_new%" gtr', 'if "1" gtr', "a_prompt_that_nvcc_refuses"),
    ("msvc.bat", "if defined SMFORGE_VC exit /b 0", GONE, "another_environment_inside"),
    ("msvc.bat", "if defined _smf_long goto :say", GONE, "a_longer_PATH_is_long_path"),
    ("msvc_find.bat", 'if not errorlevel 1 set "_smf_tmp=', 'set "_smf_tmp=', "four_starts"),
    ("msvc_key.bat", 'call :list "%ProgramData%', GONE + ' "', "instance_that_was_updated"),
    ("msvc_key.bat", 'call :list "%ProgramFiles(x86)%', GONE + ' "', "another_sdk_rebuilds"),
    ("msvc_key.bat", "%%~zF %%~tF", "%%~zF", "modified_at_another_time"),
    ("msvc_key.bat", "1 %%~zF,", "1 ,", "other_scripts_rebuild"),
    ("msvc_read.bat", "if not defined _smf_whole goto :clear", GONE, "half_written"),
    ("msvc_read.bat", "  if not defined _smf_ok_%%Y", "  " + GONE, "an_edited_cache or never_run"),
    ("msvc_read.bat", '  if "%%Y"=="text"', "  " + GONE, "another_toolset_version_file"),
    ("msvc_read.bat", '  if "%%Y"=="must" if', "  " + GONE, "a_toolset_that_went"),
    ("msvc_read.bat", '  if "%%Y"=="must2" if', "  " + GONE, "windows_h_that_went"),
    ("msvc_read.bat", 'set "_smf_version=%_smf_version:"=%"', GONE, "cache_is_never_run"),
    ("msvc_build.bat", 'if not errorlevel 1 echo 1', GONE, "others_may_write_is_refused"),
    ("msvc_build.bat", 'do set "%%N="\nfor %%N in (__VSCMD', 'do rem\nfor %%N in (__VSCMD',
     "include_and_lib_of_outside"),
    ("msvc_build.bat", 'if not "%VCToolsVersion%"==', GONE, "vcvars64_that_sets_another"),
    ("msvc_toolset.bat", 'gtr "%_smf_max%" exit', 'gtr "9" exit', "toolset_that_nvcc_accepts"),
    ("msvc_toolset.bat", "if %_b_number% leq", GONE, "toolset_that_nvcc_accepts"),
    ("compiler.bat", 'if not "%CC:;=%"', GONE, "a_bad_CC_is_replaced[list]"),
    ("toolkit.bat", 'if not "%_smf_new%"=="%_smf_flags%"', GONE, "flags_with_a_quotation_mark"),
    ("toolkit.bat", 'if "%_smf_flags: --use-local-env=%"==', 'if "1"=="1" if not ""==',
     "nvcc_is_told_to_use"),
    ("caches.bat", 'set "_smf_bad=%_smf_dir:~0,-100%"', 'set "_smf_bad="', "too_long_has_a_root"),
    ("caches.bat", 'for /f "delims=ABC', GONE + ' "', "taken_by_its_short_name"),
    ("caches_root.bat", 'if "%%Y"=="%_smf_number%" set', "set", "was_exchanged_is_refused[other]"),
    ("caches_build.bat", 'md "%_b_root%"\nif errorlevel 1', 'md "%_b_root%"\nif errorlevel 9',
     "somebody_else_made"),
    ("caches_build.bat", 'if errorlevel 1 rd', GONE, "whose_rights_cannot_be_set"),
]  # fmt: skip
BASH = [
    ("caches.sh", "! -O $root$name", "! -e $root$name", "somebody_else_is_refused"),
    ("caches.sh", "umask 077 && ", "", "are_the_users_alone"),
    ("caches.sh", "*[[:space:]]*", "x", "with_a_blank_is_refused"),
    ("activate.sh", "local - IFS", "local IFS", "shells_options_stay[noglob]"),
    ("activate.sh", "_smf_activate || :", "_smf_activate", "a_broken_helper"),
    ("activate.sh", "${2//[$'\\n\\r']/ }", "$2", "the_reason_is_one_line"),
    ("toolkit.sh", '*" -ccbin"*', "x", "nvcc_is_told_the_compiler_once"),
    ("toolkit.sh", "$file -gt $newest", "1 -gt 2", "a_gcc_newer_than_nvcc"),
    ("compiler.sh", "set -f", ":", "pattern_in_PATH"),
]


def survivors(folder: Path, tests: str, file: str) -> str:
    """The output of pytest where no test noticed the mutated scripts; else nothing."""
    names = ["test_bash"] if file.endswith(".sh") else ["test_windows", "test_windows_msvc"]
    name, _, parameter = tests.partition("[")
    chosen = f"{name} and {parameter.rstrip(']')}" if parameter else name
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", chosen]
    done = subprocess.run(
        [*command, *(f"tests/activation/{name}.py" for name in names)],
        cwd=REPO,
        env={**os.environ, "SMFORGE_TEST_SCRIPTS": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    # A fixture that broke, or a program that never ended, has not noticed anything.
    noticed = done.returncode == 1 and re.search(r"^FAILED ", output, re.MULTILINE)
    return "" if noticed and "TimeoutExpired" not in output else output


def mutate(folder: Path, file: str, text: str, instead: str) -> None:
    path = shutil.copytree(REPO / "activation", folder) / file
    old = path.read_bytes().decode()
    ends = "\r\n" if "\r\n" in old else "\n"
    old = old.replace("\r\n", "\n")
    assert text in old, f"{file} no longer holds {text!r}"
    path.write_bytes(old.replace(text, instead).replace("\n", ends).encode())


@pytest.mark.slow
@pytest.mark.usefixtures("wine")
@pytest.mark.parametrize(
    ("file", "text", "instead", "tests"), BATCH, ids=[f"{m[0]}-{m[3]}" for m in BATCH]
)
def test_a_broken_guard_of_the_batch_files_is_noticed(
    tmp_path: Path, file: str, text: str, instead: str, tests: str
) -> None:
    mutate(tmp_path / "activation", file, text, instead)
    assert survivors(tmp_path / "activation", tests, file) == ""


@pytest.mark.parametrize(
    ("file", "text", "instead", "tests"), BASH, ids=[f"{m[0]}-{m[3]}" for m in BASH]
)
def test_a_broken_guard_of_the_bash_files_is_noticed(
    tmp_path: Path, file: str, text: str, instead: str, tests: str
) -> None:
    mutate(tmp_path / "activation", file, text, instead)
    assert survivors(tmp_path / "activation", tests, file) == ""
