"""pytorch-kepler without a build: its edits on the real wheel, its flags, preflight and DLLs."""

from __future__ import annotations

import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.recipes.conftest import RECIPES, fetch

RECIPE = RECIPES / "pytorch-kepler"
TORCH = ("torch==2.0.1", "3.11", "dbd68cbd1cd9da32fe5d294dd3411509b3d841baecb780b38b3b7b06c7754434")


@pytest.fixture(autouse=True, scope="module")
def modules() -> Iterator[None]:
    """The recipe's own modules can be imported by their names."""
    sys.path.insert(0, str(RECIPE))
    yield
    sys.path.remove(str(RECIPE))
    for name in ("edits", "flags", "preflight", "dlls"):
        sys.modules.pop(name, None)


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


# -------------------------------------------------------------------------------------------------
# Edits
# -------------------------------------------------------------------------------------------------


def edit(**changes: object) -> object:
    row = {
        "id": "T1",
        "file": "a.c",
        "anchor": "const int x;",
        "replacement": "int x;",
        "count": 1,
        "needs": ["msvc"],
        "reason": "r",
        "applied_to": "w",
    }
    return module("edits").Edit(**(row | changes))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a.c").write_bytes(b"first\r\n  const int x; // why\r\nlast\n")
    return tmp_path


def test_an_edit_replaces_a_fragment_and_keeps_every_line_ending(tree: Path) -> None:
    module("edits").apply([edit()], tree)
    assert (tree / "a.c").read_bytes() == b"first\r\n  int x; // why\r\nlast\n"


def test_applied_twice_it_changes_nothing(tree: Path) -> None:
    edits = module("edits")
    assert edits.apply([edit()], tree)
    assert edits.apply([edit()], tree) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"something else\n", "is missing"),
        (b"const int x; const int x;\n", "stands there 2 times, expected 1"),
    ],
)
def test_a_missing_or_ambiguous_anchor_is_named_and_nothing_is_written(
    tree: Path, text: bytes, what: str
) -> None:
    edits = module("edits")
    (tree / "b.c").write_bytes(text)
    with pytest.raises(edits.EditError, match=f"T2: b.c: the anchor `const int x;` {what}"):
        edits.apply([edit(), edit(id="T2", file="b.c")], tree)
    assert b"const int x" in (tree / "a.c").read_bytes()


def test_two_edits_of_one_file_are_both_applied(tree: Path) -> None:
    module("edits").apply([edit(), edit(id="T2", anchor="first", replacement="1st")], tree)
    assert (tree / "a.c").read_bytes().startswith(b"1st\r\n  int x;")


def test_a_file_that_is_not_there_is_named(tree: Path) -> None:
    edits = module("edits")
    with pytest.raises(edits.EditError, match=r"T1: no\.c is not in"):
        edits.apply([edit(file="no.c")], tree)


def test_a_dry_run_shows_the_difference_and_writes_nothing(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = module("edits")
    before = (tree / "a.c").read_bytes()
    monkeypatch.setattr(edits, "load", lambda: [edit()])
    assert edits.main([str(tree), "--dry-run"]) == 0
    assert "-  const int x; // why\n+  int x; // why" in capsys.readouterr().out
    assert (tree / "a.c").read_bytes() == before


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ('file = "../a"', "leaves the tree"),
        ('replacement = "old new"', "applied twice"),
        ('needs = ["gcc"]', "needs is one or more of"),
        ('extra = "x"', "extra"),
    ],
)
def test_a_wrong_row_of_the_data_is_named(tmp_path: Path, row: str, what: str) -> None:
    edits = module("edits")
    given = dict(
        line.split(" = ", 1)
        for line in (
            'id = "X"',
            'file = "a"',
            'anchor = "old"',
            'replacement = "new"',
            "count = 1",
            'needs = ["msvc"]',
            'reason = ""',
            'applied_to = ""',
            row,
        )
    )
    data = tmp_path / "edits.toml"
    data.write_text("[[edit]]\n" + "\n".join(f"{key} = {value}" for key, value in given.items()))
    with pytest.raises(edits.EditError, match=what):
        edits.load(data)


def test_every_row_says_why_and_where_it_was_tried() -> None:
    rows = module("edits").load()
    assert {row.id for row in rows} == {
        *("K1a", "K1b", "K2", "K3", "K4", "K5"),
        *("K6a", "K6b", "K6c", "K6d", "K6e"),
    }
    assert all(row.reason and row.applied_to for row in rows)


def test_visual_c_needs_the_two_edits_about_vcvars_alone() -> None:
    edits = module("edits")
    assert [row.id for row in edits.chosen(edits.load(), ["msvc"])] == ["K1a", "K1b", "K5"]


@pytest.fixture(scope="module")
def wheel() -> Path:
    """PyTorch's own Windows wheel of 2.0.1: 172 MB, fetched once."""
    return fetch(*TORCH)


@pytest.mark.slow
def test_the_edit_of_cpp_extension_applies_to_the_real_wheel(wheel: Path, tmp_path: Path) -> None:
    edits = module("edits")
    (row,) = [row for row in edits.load() if row.id == "K5"]
    target = tmp_path / row.file
    target.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        target.write_bytes(archive.read(row.file))
    before = target.read_bytes()
    assert edits.apply([row], tmp_path) == [target]
    after = target.read_bytes()
    assert after == before.replace(row.anchor.encode(), row.replacement.encode())
    assert after.count(b"\r\n") == before.count(b"\r\n") > 1000
    assert b"import importlib\r\n" in before  # what the replacement uses
    compile(after, row.file, "exec")
    assert edits.apply([row], tmp_path) == []


@pytest.mark.slow
def test_the_class_of_edit_k3_is_exported_by_the_real_wheel(wheel: Path) -> None:
    """So MSVC takes it as it is, and the fragment is in 2.0.1."""
    with zipfile.ZipFile(wheel) as archive:
        assert b"ForkedSubgraphSRLauncher" in archive.read("torch/lib/torch_cpu.dll")


# -------------------------------------------------------------------------------------------------
# Flags
# -------------------------------------------------------------------------------------------------


def test_every_variant_and_level_gives_a_whole_environment() -> None:
    flags = module("flags")
    for blas in flags.BLAS:
        for level in flags.CPU_LEVELS:
            environ = flags.environment("2.0.1", "3.5;3.7", blas, level, 4, Path("C:/x.cmake"))
            assert environ["TORCH_CUDA_ARCH_LIST"] == "3.5;3.7"
            assert environ["MAX_JOBS"] == "4"
            assert all(isinstance(value, str) for value in environ.values())


def test_xnnpack_is_built_for_avx512_with_mkl_alone() -> None:
    flags = module("flags")
    built = {
        (blas, level)
        for blas in flags.BLAS
        for level in flags.CPU_LEVELS
        if flags.environment("", "", blas, level, 1, Path())["USE_XNNPACK"] == "1"
    }
    assert built == {("mkl", "avx512")}


def test_only_the_level_avx_excludes_cpus() -> None:
    flags = module("flags")
    archs = {
        level: flags.environment("", "", "mkl", level, 1, Path()).get("CXXFLAGS", "")
        for level in flags.CPU_LEVELS
    }
    assert archs == {"avx512": "", "avx2": "", "avx": "/arch:AVX", "sse4.2": ""}


@pytest.mark.parametrize(
    ("level", "left_out"),
    [("avx512", set()), ("avx2", {"AVX512"}), ("avx", {"AVX512", "AVX2"})],
)
def test_a_level_leaves_out_the_kernels_above_it(level: str, left_out: set[str]) -> None:
    text = module("flags").cpu_level_cmake(level)
    assert {kind for kind in ("AVX", "AVX2", "AVX512") if f"CXX_{kind}_FOUND FALSE" in text} == (
        left_out
    )


@pytest.mark.parametrize(
    ("gigabytes", "cpus", "jobs"), [(8, 16, 2), (64, 8, 8), (64, 64, 21), (2, 4, 1)]
)
def test_the_number_of_compilers_follows_the_memory(gigabytes: int, cpus: int, jobs: int) -> None:
    assert module("flags").max_jobs(gigabytes * 10**9, cpus) == jobs


def test_every_flag_has_a_comment_or_a_reason_beside_it() -> None:
    lines = (RECIPE / "flags.py").read_text().split("FLAGS = {")[1].split("\n}")[0].splitlines()
    flag_lines = [i for i, line in enumerate(lines) if '": "' in line]
    bare = [
        lines[i]
        for i in flag_lines
        if "#" not in lines[i - 1] and i - 1 not in flag_lines and i != flag_lines[0]
    ]
    assert not bare


# -------------------------------------------------------------------------------------------------
# Preflight
# -------------------------------------------------------------------------------------------------


def windows(
    tmp_path: Path, nvcc: str = "release 11.4, V11.4.152", vs: str = "C:/VS", **more: object
):
    include = tmp_path / "cuda" / "include"
    include.mkdir(parents=True, exist_ok=True)
    version = more.pop("cudnn", (8, 7))
    if version:
        text = "".join(
            f"#define CUDNN_{part} {number}\n"
            for part, number in zip(("MAJOR", "MINOR"), version, strict=True)
        )
        (include / "cudnn_version.h").write_text(text)
    else:
        (include / "cudnn_version.h").unlink(missing_ok=True)
    answers = {"vswhere.exe": vs, "nvcc.exe": nvcc}
    return module("preflight").Machine(
        platform="win32",
        environ={"CUDA_PATH_V11_4": str(tmp_path / "cuda")},
        run=lambda command: answers[Path(command[0]).name],
        free=lambda folder: int(more.get("free", 80)) * 10**9,
    )


def test_a_machine_with_everything_passes(tmp_path: Path) -> None:
    assert module("preflight").missing(windows(tmp_path), tmp_path) == []


@pytest.mark.parametrize(
    ("lacks", "line"),
    [
        ({"vs": ""}, "Visual Studio 2019"),
        ({"nvcc": ""}, "CUDA 11.4: nothing at"),
        ({"nvcc": "release 12.8"}, "CUDA 11.4: release 12.8"),
        ({"cudnn": None}, "found nothing"),
        ({"cudnn": (8, 9)}, "found 8.9"),
        ({"cudnn": (9, 1)}, "found 9.1"),
        ({"free": 12}, "disk: 12 GB free"),
    ],
)
def test_what_is_missing_is_one_line(tmp_path: Path, lacks: dict[str, object], line: str) -> None:
    (found,) = module("preflight").missing(windows(tmp_path, **lacks), tmp_path)
    assert line in found
    assert "\n" not in found


def test_everything_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    machine = windows(tmp_path, nvcc="", vs="", cudnn=None, free=1)
    assert len(module("preflight").missing(machine, tmp_path)) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="this is the other system")
def test_another_system_is_the_only_line(tmp_path: Path) -> None:
    (line,) = module("preflight").missing(module("preflight").Machine(), tmp_path)
    assert "linux-64 has conda-forge's own build" in line


# -------------------------------------------------------------------------------------------------
# DLLs
# -------------------------------------------------------------------------------------------------


def test_what_torch_imports_is_copied_with_what_that_imports(tmp_path: Path) -> None:
    lib, cuda, cudnn = (tmp_path / name for name in ("lib", "cuda", "cudnn"))
    for folder in (lib, cuda, cudnn):
        folder.mkdir()
    names = ("cudart64_110.dll", "cublas64_11.dll", "cublasLt64_11.dll", "npp.dll")
    for name in (*names, "nvrtc64_112_0.dll", "nvrtc-builtins64_114.dll"):
        (cuda / name).write_text(name)
    for name in ("cudnn64_8.dll", "cudnn_cnn_infer64_8.dll"):
        (cudnn / name).write_text(name)
    torch = lib / "torch_cuda.dll"
    torch.write_text("torch")
    imports = {
        "torch_cuda.dll": ["CUDART64_110.dll", "cublas64_11.dll", "KERNEL32.dll"],
        "cublas64_11.dll": ["cublasLt64_11.dll"],
    }
    dlls = module("dlls")
    copied = dlls.copy(lib, [torch], [cuda, cudnn], lambda dll: imports.get(dll.name, []))
    assert {path.name for path in copied} == {
        *("cudart64_110.dll", "cublas64_11.dll", "cublasLt64_11.dll"),
        *("nvrtc64_112_0.dll", "nvrtc-builtins64_114.dll"),
        *("cudnn64_8.dll", "cudnn_cnn_infer64_8.dll"),
    }
    assert dlls.copy(lib, [torch], [cuda, cudnn], lambda dll: imports.get(dll.name, [])) == []
