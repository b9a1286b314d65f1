"""What is said when torch.compile fails, and when it is likely to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from smforge import compiling
from smforge.errors import ToolchainError

GXX = """C++ compile error

Command:
g++ /tmp/a b/c.cpp -shared -o /tmp/a b/c.so

Output:
g++: fatal error: input file '/tmp/a' is the same as output file
compilation terminated."""


def chained() -> Exception:
    """As inductor's: the compiler's words, raised from a process that ended with 1."""
    error = RuntimeError(GXX)
    error.__cause__ = RuntimeError("Command '['g++', '/tmp/a', 'b/c.cpp']' returned 1")
    return error


class BackendFailed(RuntimeError):
    """As torch._dynamo's: the cause hangs on an attribute."""

    def __init__(self, inner: Exception) -> None:
        super().__init__("backend='inductor' raised:\nsomething long")
        self.inner_exception = inner


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError(GXX), "g++: fatal error: input file '/tmp/a' is the same as output file"),
        (chained(), "g++: fatal error: input file '/tmp/a' is the same as output file"),
        (RuntimeError("backend='inductor' raised:\nRuntimeError: Triton missing\n\nmore"),
         "RuntimeError: Triton missing"),
        (BackendFailed(RuntimeError("No working C++ compiler found")),
         "No working C++ compiler found"),
        (RuntimeError(""), "RuntimeError"),
        (RuntimeError("x" * 1000), "x" * 200 + "..."),
    ],
    ids=["compiler", "compiler-chained", "first-line", "inner", "silent", "long"],
)  # fmt: skip
def test_the_reason_is_the_line_that_tells_most(error: Exception, line: str) -> None:
    assert compiling.reason(error) == line


def test_a_missing_compiler_is_found_out_beforehand(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    assert "g++ and clang++ not found" in compiling.missing_compiler(environ, "cpu")
    assert compiling.missing_compiler(environ, "cuda") == ""


def test_cxx_names_the_compiler(tmp_path: Path) -> None:
    compiler = tmp_path / "my-g++"
    compiler.touch(mode=0o755)
    assert compiling.missing_compiler({"PATH": str(tmp_path), "CXX": "my-g++"}, "cpu") == ""
    environ = {"PATH": str(tmp_path), "CXX": str(tmp_path / "other")}
    assert "other not found" in compiling.missing_compiler(environ, "cpu")


def test_a_blank_in_the_cache_path_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", "/environment")
    assert "the cache has a blank" in compiling.blank_warning({"TORCHINDUCTOR_CACHE_DIR": "/a b"})
    assert compiling.blank_warning({"TORCHINDUCTOR_CACHE_DIR": "/ab"}) == ""
    monkeypatch.setattr(sys, "prefix", "/my environment")
    assert "the environment has a blank" in compiling.blank_warning({})


def test_the_whole_failure_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "compile.log"
    line = compiling.note_failure(RuntimeError(GXX), log, strict=False, environ={})
    told = "g++: fatal error: input file '/tmp/a' is the same as output file"
    assert line == f"{told} (full log: {log})"
    assert "compilation terminated." in log.read_text()


def test_what_activation_reported_is_said_beside_it(tmp_path: Path) -> None:
    environ = {"SMFORGE_STATUS": "no-msvc", "SMFORGE_REASON": "no Visual Studio was found"}
    line = compiling.note_failure(RuntimeError("x"), tmp_path / "log", False, environ)
    assert line.endswith("activation says: no Visual Studio was found")


def test_strict_makes_it_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"torch\.compile failed: x"):
        compiling.note_failure(RuntimeError("x"), tmp_path / "log", strict=True, environ={})
