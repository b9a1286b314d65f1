"""activation/msvc*.bat under Wine: which Visual C++ is taken, and when the cache holds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable

import pytest

from smforge.wine.prefix import windows_path
from tests.windows.wine import write_batch

from .windows_bed import SCRIPTS, SDK, Activated, Machine, file

NEWEST = "14.44.35207"
NAMES = (SCRIPTS / "msvc_names.txt").read_text().split()


def differences(one: Activated, two: Activated, skip: tuple[str, ...] = ()) -> dict[str, object]:
    names = set(one.variables) | set(two.variables)
    pairs = {name: (one.variables.get(name), two.variables.get(name)) for name in names}
    return {k: v for k, v in pairs.items() if v[0] != v[1] and k not in skip}


def test_a_miss_starts_processes_and_a_hit_none(machine: Machine) -> None:
    miss = machine.go()
    hit = machine.go()
    assert miss.processes is not None
    assert miss.processes >= 3  # cmd, vswhere, what vcvars64 starts
    assert hit.processes == 0
    assert (miss.returncode, miss.output, hit.returncode, hit.output) == (0, "", 0, "")
    assert (miss.status, miss.reason, miss["VCToolsVersion"], miss["CXX"]) == (
        "ok",
        "",
        NEWEST,
        "cl",
    )
    assert differences(miss, hit) == {}


def test_every_variable_is_as_after_a_direct_vcvars64(machine: Machine) -> None:
    cached = machine.hit()
    folder = machine.instances[0]
    direct = machine.go(f'call "{folder}\\VC\\Auxiliary\\Build\\vcvars64.bat" -vcvars_ver={NEWEST}')
    own = ("SMFORGE_VC", "PATH", "__VSCMD_PREINIT_PATH", "_version", "_sdk", "_front", "_outer")
    assert differences(cached, direct, own) == {}
    assert set(cached["PATH"].split(";")) == set(direct["PATH"].split(";"))


def test_nothing_of_its_own_is_left(machine: Machine) -> None:
    assert [n for n in machine.go().variables if n.lower().startswith(("_smf", "_b_"))] == []
    assert [n for n in machine.go().variables if n.lower().startswith(("_smf", "_b_"))] == []


def test_the_folders_of_vcvars64_come_first_and_the_rest_stays(machine: Machine) -> None:
    path = machine.hit(PATH="C:\\first;C:\\windows\\system32")["PATH"]
    assert path.startswith(machine.instances[0])
    assert path.endswith(";C:\\first;C:\\windows\\system32")
    assert "CMake" in path
    assert ";;" not in path


def test_twice_and_thrice_change_nothing(machine: Machine) -> None:
    once = machine.hit()
    for times in (2, 3):
        again = machine.go(times=times)
        assert differences(once, again) == {}
        assert again.processes == 0


def test_another_environment_inside_gets_a_toolset_of_its_own(machine: Machine) -> None:
    other = Machine(machine.wine, machine.root / "other", cuda="11.8")
    inner = f'set "CONDA_PREFIX={windows_path(other.prefix)}"\n{machine.call}'
    machine.go(after=inner)
    result = machine.go(after=inner)
    assert (result["VCToolsVersion"], result.processes, result.status) == ("14.29.30133", 0, "ok")
    assert "14.44" not in result["INCLUDE"]
    assert "14.29.30133" in result["PATH"].split(";")[0]


@pytest.mark.parametrize(
    ("trees", "cuda", "expected"),
    [
        ({"2019/Community": ("14.29.30133",)}, "12.8", "14.29.30133"),
        ({"2022/BuildTools": ("14.29.30133", NEWEST)}, "12.8", NEWEST),
        ({"2022/BuildTools": ("14.29.30133", NEWEST)}, "11.4", "14.29.30133"),
        ({"18/Community": (NEWEST, "14.50.35717")}, "12.8", NEWEST),
        ({"18/Community": (NEWEST, "14.50.35717")}, "13.2", "14.50.35717"),
        ({"18/Community": (NEWEST, "14.50.35717")}, "", "14.50.35717"),
        (
            {"2019/Pro": ("14.29.30133",), "2022/Enterprise": ("14.43.34808",)},
            "12.8",
            "14.43.34808",
        ),
        ({"2022/A": ("14.44.35207",), "2022/B": ("14.44.9999",)}, "12.8", "14.44.35207"),
    ],
    ids=["vs2019", "vs2022", "cuda11.4", "vs2026", "vs2026-cuda13.2", "cpu", "editions", "builds"],
)
def test_the_newest_toolset_that_nvcc_accepts_is_taken(
    bare: Machine, trees: dict[str, tuple[str, ...]], cuda: str, expected: str
) -> None:
    next((bare.prefix / "conda-meta").glob("cuda-version-*")).unlink()
    if cuda:
        bare.packages(f"cuda-version-{cuda}-h_0")
    for name, toolsets in trees.items():
        bare.visual_studio(name, toolsets)
    result = bare.hit()
    assert (result["VCToolsVersion"], result.status) == (expected, "ok")


@pytest.mark.parametrize(
    ("tree", "cuda", "status", "words"),
    [
        (("18/Community", ("14.50.35717",), "Hostx64/x64"), "12.8", "new-msvc", "14.44"),
        (("2017/Community", ("14.16.27023",), "Hostx64/x64"), "13.0", "old-msvc", "v143"),
        (("2022/Community", ("14.44.35207",), "Hostx86/x86"), "12.8", "x86-msvc", "x64"),
    ],
    ids=["new", "old", "x86"],
)
def test_without_a_fitting_toolset_the_status_says_why_and_that_is_kept(
    bare: Machine, tree: tuple[str, tuple[str, ...], str], cuda: str, status: str, words: str
) -> None:
    next((bare.prefix / "conda-meta").glob("cuda-version-*")).unlink()
    bare.packages(f"cuda-version-{cuda}-h_0")
    bare.visual_studio(tree[0], tree[1], host=tree[2])
    result = bare.hit()
    assert result.status == status
    assert words in result.reason
    assert "CXX" not in result.variables
    assert result["CC"].endswith("tcc.exe")


def test_no_visual_studio_is_no_msvc_and_that_is_kept(bare: Machine) -> None:
    result = bare.hit()
    assert result.status == "no-msvc"
    assert "winget install Microsoft.VisualStudio.2022.BuildTools" in result.reason
    assert "GPU work goes on" in result.reason
    assert result["CC"].endswith("tcc.exe")


def test_without_vswhere_no_process_is_started(bare: Machine) -> None:
    shutil.rmtree(bare.files / "Microsoft Visual Studio")
    result = bare.go()
    assert (result.status, result.processes, result.output) == ("no-msvc", 0, "")


def test_visual_studio_that_comes_later_is_found(bare: Machine) -> None:
    bare.hit()
    bare.visual_studio()
    assert bare.go()["VCToolsVersion"] == NEWEST


@pytest.mark.parametrize(
    "line", ["exit 1", "exit /b 1", "set VCToolsVersion=1\r\nexit /b 0", "cd \\"]
)
def test_a_vcvars64_that_fails_or_wanders_stops_nothing(bare: Machine, line: str) -> None:
    bare.visual_studio(extra=line)
    result = bare.go(after="set REACHED=%CD%")
    wanders = line.startswith("cd")
    assert result.status == ("ok" if wanders else "msvc-broken")
    assert result["REACHED"] == windows_path(bare.root)
    assert (result.returncode, result.output) == (0, "")
    assert list((bare.local / "smforge").glob("new*")) == []


def test_a_vcvars64_that_sets_another_toolset_is_msvc_broken(bare: Machine) -> None:
    bare.visual_studio(extra='set "_version=14.29.30133"')
    assert bare.go().status == "msvc-broken"


def test_an_sdk_without_headers_is_msvc_broken(machine: Machine) -> None:
    (machine.files / SDK).unlink()
    result = machine.go()
    assert result.status == "msvc-broken"
    assert "Windows SDK" in result.reason


def test_off_leaves_visual_studio_alone(machine: Machine) -> None:
    result = machine.go(SMFORGE_MSVC="off")
    assert (result.status, result.processes) == ("off", 0)
    assert not {"VCToolsVersion", "CXX"} & set(result.variables)


def test_require_lets_the_activation_through(bare: Machine) -> None:
    result = bare.go(SMFORGE_MSVC="require")
    assert (result.status, result.returncode, result.output) == ("no-msvc", 0, "")


PROMPT = {"VSCMD_VER": "17.14", "VSCMD_ARG_TGT_ARCH": "x64", "VCToolsVersion": "14.40.33807"}


def test_another_x64_prompt_is_taken_as_it_is(machine: Machine) -> None:
    result = machine.go(INCLUDE="C:\\mine", **PROMPT)
    assert (result.status, result.processes, result["CXX"]) == ("ok", 0, "cl")
    assert (result["VCToolsVersion"], result["INCLUDE"]) == ("14.40.33807", "C:\\mine")
    assert machine.cache_files == []


@pytest.mark.parametrize(
    ("version", "status"), [("14.50.35717", "new-msvc"), ("14.00.24210", "old-msvc")]
)
def test_a_prompt_that_nvcc_refuses_is_named(machine: Machine, version: str, status: str) -> None:
    result = machine.go(**{**PROMPT, "VCToolsVersion": version})
    assert (result.status, result["VCToolsVersion"]) == (status, version)
    assert "CUDA 12.8: _MSC_VER 1910-1949" in result.reason


def test_an_x86_prompt_is_replaced(machine: Machine) -> None:
    result = machine.hit(**{**PROMPT, "VSCMD_ARG_TGT_ARCH": "x86"})
    assert (result["VCToolsVersion"], result["VSCMD_ARG_TGT_ARCH"]) == (NEWEST, "x64")


def test_include_and_lib_of_outside_are_left_out(machine: Machine) -> None:
    result = machine.hit(INCLUDE="C:\\foreign", LIB="C:\\foreign")
    assert "foreign" not in result["INCLUDE"] + result["LIB"]


def test_odd_text_in_a_value_comes_through(machine: Machine) -> None:
    assert machine.hit()["INCLUDE"].endswith("C:\\odd & (x) ^ %q; = ' one")


# --- when the cache is not used ---------------------------------------------------------------


def rebuilt(machine: Machine, change: Callable[[], object]) -> Activated:
    """The activation after a change, which must not have been answered from the cache."""
    machine.hit()
    change()
    result = machine.go()
    assert result.processes
    assert (result.returncode, result.output) == (0, "")
    return result


def test_another_toolset_version_file_rebuilds(machine: Machine) -> None:
    path = "2022/BuildTools/VC/Auxiliary/Build/Microsoft.VCToolsVersion.default.txt"
    text = machine.files / "Microsoft Visual Studio" / path
    rebuilt(machine, lambda: write_batch(text, "14.29.30133\n"))


def test_a_toolset_that_went_rebuilds(machine: Machine) -> None:
    tools = machine.files / "Microsoft Visual Studio/2022/BuildTools/VC/Tools/MSVC" / NEWEST
    assert rebuilt(machine, lambda: shutil.rmtree(tools))["VCToolsVersion"] == "14.29.30133"


def test_windows_h_that_went_rebuilds(machine: Machine) -> None:
    assert rebuilt(machine, (machine.files / SDK).unlink).status == "msvc-broken"


def test_visual_studio_that_went_rebuilds(machine: Machine) -> None:
    def remove() -> None:
        shutil.rmtree(machine.files / "Microsoft Visual Studio/2022")
        machine.instances.clear()
        machine.list_instances()

    assert rebuilt(machine, remove).status == "no-msvc"


def test_another_instance_rebuilds(machine: Machine) -> None:
    result = rebuilt(machine, lambda: machine.visual_studio("2022/Community", ("14.44.99999",)))
    assert result["VCToolsVersion"] == "14.44.99999"


def test_an_instance_that_was_updated_rebuilds(machine: Machine) -> None:
    state = next(machine.data.rglob("state.json"))
    rebuilt(machine, lambda: state.write_text("{}" * 401))


def test_an_instance_that_was_modified_at_another_time_rebuilds(machine: Machine) -> None:
    state = next(machine.data.rglob("state.json"))
    rebuilt(machine, lambda: os.utime(state, (1_600_000_000, 1_600_000_000)))


def test_another_sdk_rebuilds(machine: Machine) -> None:
    rebuilt(machine, (machine.files / "Windows Kits/10/Include/10.0.28000.0").mkdir)


def test_other_scripts_rebuild(machine: Machine) -> None:
    scripts = machine.copy_scripts()
    build = scripts / "msvc_build.bat"
    rebuilt(machine, lambda: build.write_bytes(build.read_bytes() + b"rem\r\n"))


def edited(machine: Machine, edit: Callable[[bytes], bytes]) -> None:
    """An edited cache file is rebuilt, and nothing of the edit arrives."""
    machine.go(count=False)
    cache = machine.cache_files[0]
    cache.write_bytes(edit(cache.read_bytes()))
    result = machine.go()
    assert result.processes
    assert (result.returncode, result.output) == (0, "")
    assert (result.status, result["VCToolsVersion"]) == ("ok", NEWEST)
    assert "EVIL" not in result.variables
    assert result["PATHEXT"].lower().startswith(".com")
    assert machine.go().processes == 0


@pytest.mark.parametrize("cut", [0, 1, 20, 500, 2000, -30, -14, -13, -12, -3, -2, -1])
def test_a_half_written_cache_is_rebuilt(machine: Machine, cut: int) -> None:
    edited(machine, lambda text: text[:cut])


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace(b"=17.0\r", b"=17.00\r"),
        lambda text: text.replace(b"end=", b"EVIL=1\r\nend="),
        lambda text: b"PATHEXT=.x\r\n" + text,
        lambda text: text + b"EVIL=1\r\n",
        lambda text: text.replace(b"smforge=1\r\n", b"EVIL=1234\r\n", 1),
        lambda text: text.replace(b"key=1 ", b"key=2 "),
        lambda text: text.replace(b"\r\n", b"\n"),
        lambda text: bytes(range(256)) * 12,
    ],
    ids=["longer", "line", "first", "last", "name", "key", "line-ends", "noise"],
)
def test_an_edited_cache_is_rebuilt(machine: Machine, edit: Callable[[bytes], bytes]) -> None:
    edited(machine, edit)


def with_end(text: bytes) -> bytes:
    """The text with an end marker that fits."""
    body = text[: text.rindex(b"end=")] if b"end=1" in text else text
    return body + b"end=%d\r\n" % (1_000_000 + len(body))


EVIL = [b'" & echo PWNED>pwned.txt & rem "', b"x & echo PWNED>pwned.txt", b'"=="" echo P>pwned.txt']


@pytest.mark.parametrize("evil", EVIL, ids=["quote", "ampersand", "equals"])
@pytest.mark.parametrize(
    "name", ["file", "key", "text", "must", "must2", "status", "end", "VCToolsVersion", "", "PATH+"]
)
def test_what_stands_in_the_cache_is_never_run(machine: Machine, name: str, evil: bytes) -> None:
    machine.go(count=False)
    cache = machine.cache_files[0]
    text = cache.read_bytes()
    line = re.compile(rb"(?m)^" + re.escape(name.encode()) + rb"=.*\r$")
    if not name:
        text = evil + b"=1\r\n" + text
    elif line.search(text):
        text = line.sub(lambda _: name.encode() + b"=" + evil + b"\r", text)
    else:
        text = name.encode() + b"=" + evil + b"\r\n" + text
    cache.write_bytes(with_end(text))
    result = machine.go()
    assert result.returncode == 0
    assert list(machine.root.rglob("pwned*")) == []


def test_four_starts_at_once_all_get_the_compiler(machine: Machine) -> None:
    machine.go(count=False)
    machine.cache_files[0].unlink()
    given = machine.environ()
    carried = {f"_CARRY_{index}": value for index, value in enumerate(given.values())}
    runs = [
        subprocess.Popen(
            ["wine", "cmd", "/d", "/c", "script.bat"],
            cwd=machine.root,
            env=machine.wine.environ | carried,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    outputs = [run.communicate(timeout=120)[0] for run in runs]
    assert [f"VCToolsVersion={NEWEST}".encode() in output for output in outputs] == [True] * 4
    assert list((machine.local / "smforge").glob("new*")) == []
    assert machine.go().processes == 0


def test_a_cache_that_cannot_be_written_is_refused(machine: Machine) -> None:
    file(machine.local / "smforge", "a file where the folder should be")
    result = machine.go()
    assert (result.status, result.returncode, result.output) == ("cache-refused", 0, "")


def test_a_cache_that_others_may_write_is_refused(machine: Machine) -> None:
    machine.copy_scripts("icacls")
    folder = windows_path(machine.local / "smforge")
    file(machine.root / "stand-ins/icacls.txt", f"SID Found: {folder}.\r\n")
    result = machine.go()
    assert result.status == "cache-refused"
    assert machine.cache_files == []
    assert list((machine.local / "smforge").glob("new*")) == []


def test_a_cache_that_others_may_not_write_is_fine(machine: Machine) -> None:
    machine.copy_scripts("icacls")
    file(machine.root / "stand-ins/icacls.txt", "Successfully processed 1 files\r\n")
    assert machine.hit().status == "ok"


@pytest.mark.parametrize("name", ["D (x) & y", "caf\xe9!z", "p^q", "a=b"])
def test_visual_studio_in_an_odd_place(bare: Machine, name: str) -> None:
    bare.visual_studio(below=bare.root / name)
    result = bare.hit()
    assert result.status == "ok"
    assert f"\\{name}\\" in result["VCToolsInstallDir"]
    assert f"\\{name}\\" in result["PATH"]


def test_delayed_expansion_in_the_callers_cmd_changes_nothing(machine: Machine) -> None:
    machine.hit()
    assert machine.go(options=("/v:on",))["VCToolsVersion"] == NEWEST
