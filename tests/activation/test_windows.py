"""activation/activate.bat under Wine: compilers, toolkit, caches, Python, odd places."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from smforge.wine.prefix import windows_path
from tests.windows.wine import Shell

from .windows_bed import LOCK_HASH, REPO, TRITON, Activated, Machine, file

NVCC = "Library/bin/nvcc.exe"
TCC = "Lib/site-packages/triton/runtime/tcc/tcc.exe"
SID = "S-1-5-21-1004336348-1177238915-682003330-"  # of this machine; a user's RID follows


def tcc(machine: Machine) -> str:
    return windows_path(machine.prefix / TCC)


# --- CC and CXX ---------------------------------------------------------------------------------


def test_CC_is_the_compiler_that_triton_brings(machine: Machine) -> None:
    result = machine.go()
    assert (result["CC"], result["CXX"], result.reason) == (tcc(machine), "cl", "")


def test_SMFORGE_CC_cl_opts_out(machine: Machine) -> None:
    assert machine.go(SMFORGE_CC="cl")["CC"] == "cl"


def test_SMFORGE_CC_cl_without_visual_cpp_keeps_tcc_and_says_so(bare: Machine) -> None:
    result = bare.go(SMFORGE_CC="cl")
    assert result["CC"] == tcc(bare)
    assert "SMFORGE_CC=cl, but Visual C++ is not active" in result.reason


def test_without_triton_CC_is_left_alone(machine: Machine) -> None:
    (machine.prefix / TCC).unlink()
    assert "CC" not in machine.go().variables
    own = windows_path(file(machine.root / "clang-cl.exe"))
    result = machine.go(CC=own)
    assert (result["CC"], result.reason) == (own, "")
    assert machine.go(CC="cl")["CC"] == "cl"  # found on the PATH that Visual C++ set


@pytest.mark.parametrize("triton", [True, False], ids=["triton", "cl"])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("C:\\windows", "is a folder"),
        ("C:\\nowhere\\cl.exe", "names no program"),
        ("C:\\windows\\regedit.exe;", "is a list"),
        ('"C:\\no where & other\\cl.exe"', "names no program"),
    ],
    ids=["folder", "missing", "list", "quotes"],
)
def test_a_bad_CC_is_replaced_and_named(
    machine: Machine, value: str, why: str, triton: bool
) -> None:
    if not triton:
        (machine.prefix / TCC).unlink()
    result = machine.go(extra={"CC": value})
    assert result["CC"] == (tcc(machine) if triton else "cl")
    bare_value = value.replace('"', "")
    assert f"CC={bare_value} {why}" in result.reason
    assert (result.status, result.returncode, result.output) == ("ok", 0, "")


def test_a_bad_CC_without_another_compiler_is_bad_cc(machine: Machine) -> None:
    (machine.prefix / TCC).unlink()
    result = machine.go(SMFORGE_MSVC="off", CC="C:\\nowhere\\cl.exe")
    assert "CC=C:\\nowhere\\cl.exe names no program" in result.reason
    assert result["CC"] == "C:\\nowhere\\cl.exe"
    assert result.status == "off"  # the first status stands
    shutil.rmtree(machine.files / "Microsoft Visual Studio")


def test_bad_cc_is_the_status_where_nothing_else_is_wrong(machine: Machine) -> None:
    (machine.prefix / TCC).unlink()
    scripts = machine.copy_scripts()
    (scripts / "msvc.bat").write_bytes(b"@exit /b 0\r\n")
    assert machine.go(CC="C:\\nowhere\\cl.exe").status == "bad-cc"


def test_another_compiler_in_CC_gives_way_to_tritons_and_is_named(machine: Machine) -> None:
    own = windows_path(file(machine.root / "gcc.exe"))
    result = machine.go(CC=own)
    assert result["CC"] == tcc(machine)
    assert f"CC={own} is not this environment's" in result.reason


def test_another_CXX_gives_way_to_cl_and_is_named(machine: Machine) -> None:
    result = machine.go(CXX="clang-cl")
    assert result["CXX"] == "cl"
    assert "CXX=clang-cl gives way to cl" in result.reason


def test_without_visual_cpp_CXX_stays(bare: Machine) -> None:
    assert bare.go(CXX="clang-cl")["CXX"] == "clang-cl"


def test_the_real_tcc_that_CC_names_compiles(machine: Machine, windows_triton: Path) -> None:
    folder = (machine.prefix / TCC).parent
    shutil.rmtree(folder)
    shutil.copytree(windows_triton / "triton/runtime/tcc", folder)
    file(machine.root / "answer.c", "__declspec(dllexport) int answer(void) { return 42; }")
    result = machine.go(after='"%CC%" -shared answer.c -o answer.dll')
    assert result["CC"] == tcc(machine)
    assert (machine.root / "answer.dll").read_bytes()[:2] == b"MZ", result.output


# --- CUDA ---------------------------------------------------------------------------------------


def test_CUDA_PATH_and_CUDA_HOME_are_the_prefix(machine: Machine) -> None:
    result = machine.go()
    assert result["CUDA_PATH"] == result["CUDA_HOME"] == windows_path(machine.prefix / "Library")


@pytest.mark.parametrize("part", ["bin/ptxas.exe", "include/cuda.h", "lib/cuda.lib"])
def test_half_a_toolkit_is_none(machine: Machine, part: str) -> None:
    (machine.prefix / "Library" / part).unlink()
    assert not {"CUDA_PATH", "CUDA_HOME"} & set(machine.go().variables)


def test_another_toolkit_in_CUDA_PATH_is_replaced_and_named(machine: Machine) -> None:
    result = machine.go(CUDA_PATH="C:\\CUDA & co\\v12.4")
    assert result["CUDA_PATH"] == windows_path(machine.prefix / "Library")
    assert "CUDA_PATH=C:\\CUDA & co\\v12.4 is another CUDA toolkit (not used)" in result.reason


def test_another_toolkit_is_named_where_the_environment_has_none(machine: Machine) -> None:
    (machine.prefix / "Library/bin/ptxas.exe").unlink()
    result = machine.go(CUDA_HOME="C:\\CUDA")
    assert (result["CUDA_HOME"], "(not used)" in result.reason) == ("C:\\CUDA", False)
    assert "CUDA_HOME=C:\\CUDA is another CUDA toolkit" in result.reason


def test_another_nvcc_on_PATH_is_shadowed_and_named(machine: Machine) -> None:
    own = windows_path(file(machine.prefix / NVCC).parent)
    other = windows_path(file(machine.root / "CUDA (x86) & co/nvcc.exe").parent)
    result = machine.go(PATH=f"{other};C:\\windows;{own}")
    folders = result["PATH"].split(";")
    assert folders.index(own) < folders.index(other)
    assert f"{other}\\nvcc.exe is another CUDA toolkit's (not used)" in result.reason


def test_PATH_stays_where_the_environments_nvcc_is_first(machine: Machine) -> None:
    own = windows_path(file(machine.prefix / NVCC).parent)
    result = machine.go(PATH=f"{own};C:\\windows", SMFORGE_MSVC="off")
    assert result["PATH"] == f"{own};C:\\windows"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "--use-local-env"),
        ("-lineinfo", "--use-local-env -lineinfo"),
        ("-x --use-local-env", "-x --use-local-env"),
    ],
    ids=["none", "other", "there"],
)
def test_nvcc_is_told_to_use_the_environment_once(
    machine: Machine, given: str, expected: str
) -> None:
    assert machine.go(times=2, NVCC_PREPEND_FLAGS=given)["NVCC_PREPEND_FLAGS"] == expected


def test_flags_with_a_quotation_mark_stay_and_are_named(machine: Machine) -> None:
    given = '-ccbin "C:\\a & b\\cl.exe"'
    result = machine.go(extra={"NVCC_PREPEND_FLAGS": given})
    assert result["NVCC_PREPEND_FLAGS"] == given
    assert "NVCC_PREPEND_FLAGS holds a quotation mark" in result.reason
    assert (result.returncode, result.output) == (0, "")


@pytest.mark.parametrize(("cuda", "told"), [("13.0", False), ("13.2", True), ("13.10", True)])
def test_the_conforming_preprocessor_from_cuda_13_2(bare: Machine, cuda: str, told: bool) -> None:
    next((bare.prefix / "conda-meta").glob("cuda-version-*")).unlink()
    bare.packages(f"cuda-version-{cuda}-h_0")
    bare.visual_studio()
    flags = bare.go(times=2)["NVCC_PREPEND_FLAGS"]
    assert flags.count("-Xcompiler /Zc:preprocessor") == int(told)
    assert flags.count("--use-local-env") == 1


def test_without_visual_cpp_nvcc_is_told_nothing(bare: Machine) -> None:
    assert "NVCC_PREPEND_FLAGS" not in bare.go().variables


# --- Python and torch ---------------------------------------------------------------------------


def test_PYTHONPATH_is_the_workspaces_source_and_a_leaked_one_is_named(machine: Machine) -> None:
    result = machine.go(PYTHONPATH="C:\\leaked & co")
    assert result["PYTHONPATH"] == windows_path(REPO / "src")
    assert result.reason == "PYTHONPATH=C:\\leaked & co is left out"


def test_an_old_reason_does_not_stay(machine: Machine) -> None:
    # An unset variable would stay as it was outside: pixi keeps what was added or changed.
    assert machine.go(SMFORGE_REASON="of an outer activation").reason == " "


def test_PYTHONPATH_is_untouched_outside_a_workspace(machine: Machine) -> None:
    machine.copy_scripts()
    assert machine.go(PYTHONPATH="C:\\mine")["PYTHONPATH"] == "C:\\mine"


def test_what_python_msvc_and_torch_are_told(machine: Machine) -> None:
    result = machine.go()
    expected = {
        "DISTUTILS_USE_SDK": "1",
        "MSSdk": "1",
        "VSLANG": "1033",
        "PYTHONUTF8": "1",
        "PYTHONNOUSERSITE": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_UNIQUE_KERNEL_NAMES": "0",
        "USE_LIBUV": "0",
    }
    assert {name: result[name] for name in expected} == expected


def test_libuv_is_used_where_torch_has_it(machine: Machine) -> None:
    machine.packages("libuv-1.52.1-h_0")
    assert "USE_LIBUV" not in machine.go().variables


def test_unique_kernel_names_that_were_asked_for_stay(machine: Machine) -> None:
    name = "TORCHINDUCTOR_UNIQUE_KERNEL_NAMES"
    assert machine.go(**{name: "1"})[name] == "1"


# --- the compile caches -------------------------------------------------------------------------


def roots(result: Activated) -> tuple[str, str]:
    return result["TORCHINDUCTOR_CACHE_DIR"], result["TRITON_CACHE_DIR"]


def key(result: Activated) -> str:
    return result["TRITON_CACHE_DIR"].rpartition("\\t-")[2]


def test_the_caches_lie_in_the_profile_under_a_key(machine: Machine) -> None:
    base = windows_path(machine.local / "smforge")
    name = f"{LOCK_HASH[:8]}-{TRITON}-t44.35207"
    assert roots(machine.go()) == (f"{base}\\i-{name}", f"{base}\\t-{name}")


def test_other_packages_another_triton_or_compiler_have_other_caches(machine: Machine) -> None:
    keys = [key(machine.go())]
    keys.append(key(machine.go(SMFORGE_CC="cl")))
    keys.append(key(machine.go(SMFORGE_MSVC="off")))
    machine.lock("0" * 16)
    keys.append(key(machine.go()))
    meta = machine.prefix / "conda-meta"
    next(meta.glob("triton-windows-*")).rename(meta / "triton-windows-3.7.1.post28-py311_0.json")
    keys.append(key(machine.go()))
    (machine.prefix / TCC).unlink()
    own = file(machine.root / "clang.exe", "12345")
    keys.append(key(machine.go(CC=windows_path(own))))
    own.write_text("123456")
    keys.append(key(machine.go(CC=windows_path(own))))
    assert len(set(keys)) == len(keys), keys


def test_an_environment_of_conda_is_keyed_by_its_history(machine: Machine) -> None:
    meta = machine.prefix / "conda-meta"
    (meta / "pixi").unlink()
    history = file(meta / "history", "==> 2026-11-21 09:10:11 <==\n")
    first = machine.go()
    assert first.status == "ok"
    assert key(first).startswith("h28-")
    history.write_text("==> 2026-11-21 09:10:11 <==\n+x\n")
    assert key(machine.go()) != key(first)


@pytest.mark.parametrize("profile", ["pro file", "caf\xe9"], ids=["blank", "accent"])
def test_a_profile_that_is_no_plain_name_is_taken_by_its_short_name(
    wine: Shell, short_path: Path, profile: str
) -> None:
    machine = Machine(wine, short_path / "m", profile=profile)
    machine.visual_studio()
    result = machine.hit()
    assert result.status == "ok"
    for root in roots(result):
        assert " " not in root
        assert root.isascii()


def deep(machine: Machine, length: int) -> str:
    """A profile below which TRITON_CACHE_DIR has this length."""
    name = f"\\smforge\\t-{LOCK_HASH[:8]}-{TRITON}-t44.35207"
    start = windows_path(machine.root / "p")
    folder = start + "x" * (length - len(start) - len(name))
    Path(folder[2:].replace("\\", "/")).mkdir()
    return folder


LONGEST = 150  # characters of the longest name below a cache folder, as README.md says


def test_the_longest_name_that_triton_makes_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = pytest.importorskip("triton.runtime.cache", reason="no triton here")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    made: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (made.append(str(a)), replace(a, b)))
    monkeypatch.setattr(os, "getpid", lambda: 4_294_967_295)  # the longest that Windows has
    manager = cache.get_cache_manager("f" * 64)
    # triton_: every kernel of inductor, TORCHINDUCTOR_UNIQUE_KERNEL_NAMES being 0.
    for name in ("triton_.source", "__triton_launcher.cp311-win_amd64.pyd"):
        manager.put("", name)
    manager.put_group("triton_.json", {})
    assert max(len(name) for name in made) - len(str(tmp_path)) - 1 <= LONGEST


@pytest.mark.slow
def test_the_longest_name_that_inductor_makes_fits(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="no torch here")
    if not shutil.which("g++"):
        pytest.skip("no g++ here for inductor")
    code = (
        "import torch; n = torch.nn; m = torch.compile(n.Sequential(n.Linear(8, 8), n.GELU()))\n"
        "m(torch.randn(4, 8)).sum().backward()"
    )
    environ = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True)
    names = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    assert names
    assert max(map(len, names)) <= LONGEST


def test_the_longest_name_fits_below_the_longest_root() -> None:
    assert 100 + 1 + LONGEST < 260
    readme = (REPO / "activation/README.md").read_text("utf-8")
    assert f"has {LONGEST}\ncharacters" in readme


@pytest.fixture
def fallback(wine: Shell, machine: Machine) -> Iterator[Path]:
    """C:\\smf\\<RID>, not there yet; the scripts with stand-ins for icacls and whoami.

    Each test is a user of its own: another run of the suite has the same drive C at the same time.
    """
    machine.copy_scripts("icacls", "whoami")
    rid = str(random.randrange(10**8, 10**9))
    file(machine.root / "stand-ins/sid.txt", SID + rid)
    folder = wine.folder / "prefix/drive_c/smf" / rid
    assert not folder.exists()
    yield folder
    if folder.exists():
        shutil.rmtree(folder)


def made_on_drive(machine: Machine, fallback: Path) -> str:
    """The profile of an activation that made the folder on the drive."""
    profile = long_profile(machine)
    result = machine.go(LOCALAPPDATA=profile)
    assert (result.status, result.reason) == ("ok", "")
    assert (fallback / "smforge.id").is_file()
    return profile


def assert_no_folder_on_drive(result: Activated) -> None:
    assert (result.status, result.returncode, result.output) == ("cache-refused", 0, "")
    assert result.reason.startswith("no compile cache: ")
    assert result.reason.endswith("for you alone; remove what is there")
    assert not {"TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"} & set(result.variables)


def long_profile(machine: Machine) -> str:
    """A profile that is too long even by its short name."""
    folder = machine.root.joinpath(*["12345678"] * 10)
    folder.mkdir(parents=True, exist_ok=True)
    return windows_path(folder)


def test_the_longest_root_that_is_taken_has_100_characters(machine: Machine) -> None:
    start = len(windows_path(machine.root)) + 60
    if start > 100:
        pytest.skip(f"the temporary folder {machine.root} is too long for this measure")
    result = machine.go(LOCALAPPDATA=deep(machine, 100))
    assert [len(root) for root in roots(result)] == [100, 100]


def test_a_profile_that_is_too_long_has_a_root_on_the_drive(
    machine: Machine, fallback: Path
) -> None:
    profile = long_profile(machine)
    result = machine.go(LOCALAPPDATA=profile)
    assert (result.status, result.returncode, result.output) == ("ok", 0, "")
    own = f"C:\\smf\\{fallback.name}"
    assert result["TRITON_CACHE_DIR"].startswith(f"{own}\\t-51698ef5-")
    granted = (machine.root / "stand-ins/granted.txt").read_text()
    assert f'"{own}" /inheritance:r /grant:r "*{SID}{fallback.name}:(OI)(CI)F"' in granted
    again = machine.go(LOCALAPPDATA=profile)
    assert (roots(again), again.processes) == (roots(result), 0)


def test_a_root_on_the_drive_that_somebody_else_made_is_refused(
    machine: Machine, fallback: Path
) -> None:
    fallback.mkdir(parents=True)
    assert_no_folder_on_drive(machine.go(LOCALAPPDATA=long_profile(machine)))


@pytest.mark.parametrize("content", [None, "1234\r\n"], ids=["gone", "other"])
def test_a_root_on_the_drive_that_was_exchanged_is_refused(
    machine: Machine, fallback: Path, content: str | None
) -> None:
    profile = made_on_drive(machine, fallback)
    marker = fallback / "smforge.id"
    marker.unlink()
    if content:
        marker.write_text(content)
    assert_no_folder_on_drive(machine.go(LOCALAPPDATA=profile))


def test_a_root_on_the_drive_whose_rights_cannot_be_set_is_refused(
    machine: Machine, fallback: Path
) -> None:
    file(machine.root / "stand-ins/icacls-fails.txt")
    assert_no_folder_on_drive(machine.go(LOCALAPPDATA=long_profile(machine)))
    assert not fallback.exists()


@pytest.mark.parametrize("line", ["..\\..\\evil,1", '1001" & echo PWNED>pwned.txt & ",1', "1001"])
def test_a_kept_root_that_was_edited_is_refused(
    machine: Machine, fallback: Path, line: str
) -> None:
    profile = made_on_drive(machine, fallback)
    (kept,) = machine.root.rglob("root.txt")
    kept.write_text(line + "\r\n")
    assert_no_folder_on_drive(machine.go(LOCALAPPDATA=profile))
    assert list(machine.root.rglob("pwned*")) == []


def test_without_a_profile_there_is_no_cache(bare: Machine) -> None:
    result = bare.go(LOCALAPPDATA="")
    assert "no compile cache: LOCALAPPDATA is not set" in result.reason
    assert (result.returncode, result.output) == (0, "")


# --- odd places ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["a b", "a (x86) b", "a!b!", "a & b", "a^b", "a=b,c;d", "it's", "caf\xe9 \xfc", "[a]{b}~@#$+-",
     "190"],
)  # fmt: skip
def test_odd_prefixes(wine: Shell, short_path: Path, name: str) -> None:
    if name == "190":  # characters of the whole prefix
        name = "x" * (190 - len(windows_path(short_path / "m")) - 1)
    machine = Machine(wine, short_path / "m", prefix_name=name)
    machine.visual_studio()
    result = machine.hit()
    assert result["CC"] == tcc(machine)
    assert result["CUDA_PATH"] == windows_path(machine.prefix / "Library")
    assert (result["VCToolsVersion"], result.status, result.reason) == ("14.44.35207", "ok", "")


def with_path(machine: Machine, length: int) -> Activated:
    """Activate with a PATH of about this many characters (Wine puts WINEPATH before PATH)."""
    folder = "C:\\" + "p" * 46
    machine.go(count=False)
    given = machine.environ()
    del given["PATH"]
    script = f"{machine.call}@echo ==\n@set\n"
    result = machine.wine.cmd(
        script,
        given,
        folder=machine.root,
        count=True,
        extra={"WINEPATH": ";".join([folder] * (length // 50))},
    )
    noise, _, dump = result.stdout.partition("==\n")
    values = dict(line.split("=", 1) for line in dump.splitlines() if "=" in line[1:])
    return Activated(result.returncode, noise + result.stderr, result.processes, values)


@pytest.mark.parametrize("length", [5000, 5900])
def test_a_PATH_up_to_6000_characters_gets_the_compiler(machine: Machine, length: int) -> None:
    result = with_path(machine, length)
    assert (result.status, result.processes, result.output) == ("ok", 0, "")
    assert len(result["PATH"]) > length
    assert result["PATH"].startswith(machine.instances[0])


@pytest.mark.parametrize("length", [6100, 7900])
def test_a_longer_PATH_is_long_path_and_stays(machine: Machine, length: int) -> None:
    result = with_path(machine, length)
    assert (result.status, result.returncode, result.output) == ("long-path", 0, "")
    assert result["PATH"].startswith("C:\\ppp")
    assert "shorten PATH" in result.reason
    assert "CXX" not in result.variables


def test_quotation_marks_in_PATH_are_dropped(machine: Machine) -> None:
    before = 'set PATH=C:\\x;"C:\\a & b";%PATH%'
    machine.go(before, count=False)
    result = machine.go(before)
    assert (result.processes, result.output) == (0, "")
    assert "C:\\x;C:\\a & b;" in result["PATH"]


@pytest.mark.parametrize("prefix", ["", "C:\\nowhere"], ids=["unset", "missing"])
def test_no_prefix(machine: Machine, prefix: str) -> None:
    result = machine.go(CONDA_PREFIX=prefix)
    assert (result.status, result.returncode, result.output) == ("no-prefix", 0, "")
    assert "run: pixi install" in result.reason
    assert [n for n in result.variables if n.startswith("_smf")] == []


def test_values_are_never_run(machine: Machine) -> None:
    evil = 'x" & echo PWNED>pwned.txt & rem "'
    names = ["CC", "CXX", "CUDA_PATH", "CUDA_HOME", "PYTHONPATH", "NVCC_PREPEND_FLAGS"]
    names += ["SMFORGE_CC", "SMFORGE_MSVC", "VCToolsVersion", "VSCMD_VER", "VSCMD_ARG_TGT_ARCH"]
    names += ["SMFORGE_VC", "TORCHINDUCTOR_UNIQUE_KERNEL_NAMES"]
    result = machine.go(extra=dict.fromkeys(names, evil))
    assert result.returncode == 0
    assert list(machine.root.rglob("pwned*")) == []


HELPERS = sorted(p.name for p in (REPO / "activation").glob("*.bat") if p.name != "activate.bat")


@pytest.mark.parametrize("helper", HELPERS)
def test_a_missing_helper_leaves_the_status_aborted(machine: Machine, helper: str) -> None:
    (machine.copy_scripts() / helper).unlink()
    result = machine.go(after="set REACHED=1")
    assert (result.status, result["REACHED"], result.output) == ("aborted", "1", "")
    assert f"{helper} is missing" in result.reason
    assert [n for n in result.variables if n.startswith("_smf")] == []
