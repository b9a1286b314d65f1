"""Build PyTorch 2.0.1 for Kepler with Visual Studio 2019 and CUDA 11.4, and install it.

Run by rattler-build in the unpacked source, with KEPLER_VERSION, KEPLER_ARCHS, KEPLER_BLAS and
KEPLER_CPU_LEVEL set. With SMFORGE_WORK it builds in a copy of the source in that folder. Started
again there it goes on where it broke off: the edits are applied once, CMake and ninja keep what
they made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

RECIPE = Path(os.environ.get("RECIPE_DIR", Path(__file__).parent))
sys.path.insert(0, str(RECIPE))

import dlls  # noqa: E402
import edits  # noqa: E402
import flags  # noqa: E402
import preflight  # noqa: E402


def main() -> None:
    source, prefix = Path(os.environ["SRC_DIR"]), Path(os.environ["PREFIX"])
    machine = preflight.Machine()
    if lines := preflight.missing(machine, source):
        sys.exit("error: this machine lacks " + "; ".join(lines))
    tree = lasting_copy(source, os.environ.get("SMFORGE_WORK"))
    apply_edits(tree)
    environ = build_environment(tree, machine)
    python = prefix / "python.exe"
    wheels = tree / "dist"
    shutil.rmtree(wheels, ignore_errors=True)
    run([python, "setup.py", "bdist_wheel", "--dist-dir", wheels], tree, environ)
    (wheel,) = wheels.glob("*.whl")
    install = ["install", "--no-deps", "--no-index", "--force-reinstall", wheel]
    run([python, "-m", "pip", *install], tree, environ)
    copy_dlls(prefix / "Lib/site-packages/torch", machine)


def lasting_copy(source: Path, work: str | None) -> Path:
    """The tree to build in: the copy of an earlier start, a new copy, or the source itself."""
    if not work:
        return source
    tree, partial = Path(work) / "tree", Path(work) / "tree.part"
    if not tree.exists():
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(source, partial, symlinks=True)
        partial.replace(tree)
    return tree


def apply_edits(tree: Path) -> None:
    """Edit the sources for Visual C++; a missing or ambiguous anchor stops the build."""
    try:
        for path in edits.apply(edits.chosen(edits.load(), ["msvc"]), tree):
            print(f"edited {path.relative_to(tree)}", flush=True)
    except edits.EditError as error:
        sys.exit(f"error: {error}")


def build_environment(tree: Path, machine: preflight.Machine) -> dict[str, str]:
    """This environment with the flags of the variant and the builder's CUDA and cuDNN."""
    level = os.environ["KEPLER_CPU_LEVEL"]
    if level not in flags.CPU_LEVELS:
        sys.exit(f"error: cpu_level is {level}; expected one of {', '.join(flags.CPU_LEVELS)}")
    include = tree / "kepler_cpu_level.cmake"
    text = flags.cpu_level_cmake(level)
    if not include.exists() or include.read_text("utf-8") != text:
        include.write_text(text, "utf-8")  # left alone otherwise: a new time would rebuild
    jobs = flags.max_jobs(memory(), os.cpu_count() or 1)
    print(f"{jobs} compilers at a time", flush=True)
    chosen = flags.environment(
        os.environ["KEPLER_VERSION"],
        os.environ["KEPLER_ARCHS"],
        os.environ["KEPLER_BLAS"],
        level,
        jobs,
        include,
    )
    cuda, cudnn = machine.cuda(), machine.cudnn()
    library = Path(os.environ["PREFIX"]) / "Library"
    return (
        os.environ
        | chosen
        | {
            "CUDA_PATH": str(cuda),
            "CUDA_HOME": str(cuda),
            "CUDNN_INCLUDE_DIR": str(cudnn / "include"),
            "CUDNN_LIBRARY": str(cudnn / "lib" / "x64" / "cudnn.lib"),
            # The headers and import libraries of conda's BLAS.
            "CMAKE_INCLUDE_PATH": str(library / "include"),
            "CMAKE_LIBRARY_PATH": str(library / "lib"),
            "PATH": f"{cuda / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
    )


def memory() -> int:
    """This machine's memory in bytes."""
    if sys.platform != "win32":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    import ctypes

    kilobytes = ctypes.c_ulonglong()
    ctypes.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
    return kilobytes.value * 1024


def copy_dlls(torch: Path, machine: preflight.Machine) -> None:
    """Put CUDA's and cuDNN's DLLs beside torch's own, so that no toolkit is needed to run."""
    folders = [machine.cuda() / "bin", machine.cudnn() / "bin"]
    # nvToolsExt has a folder of its own beside CUDA 11.
    if nvtx := os.environ.get("NVTOOLSEXT_PATH"):
        folders.append(Path(nvtx) / "bin" / "x64")
    binaries = [*(torch / "lib").glob("*.dll"), *torch.glob("*.pyd")]
    for path in dlls.copy(torch / "lib", binaries, folders):
        print(f"copied {path.name}", flush=True)


def run(command: list[str | Path], folder: Path, environ: dict[str, str]) -> None:
    """Run a step of the build; one line when it fails."""
    words = [str(word) for word in command]
    if status := subprocess.run(words, cwd=folder, env=environ, check=False).returncode:
        sys.exit(
            f"error: `{' '.join(words)}` ended with {status}; its last lines stand above. Start "
            "the build again once the cause is mended: it goes on from here"
        )


if __name__ == "__main__":
    main()
