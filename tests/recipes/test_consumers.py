"""Users of the channel: solved and installed over http, and used by a Windows Python under Wine.

python, pytorch, ucrt, vc14_runtime and setuptools are stand-ins that these tests make;
triton-windows is the package that the recipe makes from the real wheel.
"""

from __future__ import annotations

import json
import shutil
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from smforge.channel import index, publish, serve
from smforge.wine.prefix import windows_path
from tests.recipes.conftest import DATA, in_child

if TYPE_CHECKING:
    from tests.windows.python import Interpreter

STAND_INS = [
    ("python", "3.11.9", []),
    ("python", "3.12.9", []),
    ("python_abi", "3.11", ["python 3.11.*"]),
    ("python_abi", "3.12", ["python 3.12.*"]),
    ("pytorch", "2.6.0", ["python"]),
    ("pytorch", "2.11.0", ["python"]),
    ("pytorch", "2.13.0", ["python"]),
    ("ucrt", "10.0.26100.0", []),
    ("vc14_runtime", "14.44.35208", []),
    ("setuptools", "75.0", []),
]

INSTALL = """
    import asyncio, json, sys
    from rattler import *
    from rattler import BuildString
    url, prefix, specs = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    virtual = [GenericVirtualPackage(PackageName("__win"), Version("10.0"), BuildString("0"))]
    async def main():
        gateway = Gateway(cache_dir=prefix + "-cache")
        try:
            records = await solve([Channel(url)], specs, gateway=gateway,
                                  platforms=["win-64", "noarch"], virtual_packages=virtual)
        except Exception as error:
            return str(error)
        await install(records, prefix, cache_dir=prefix + "-packages", platform=Subdir("win-64"),
                      show_progress=False)
        return {r.name.normalized: [str(r.version), r.url] for r in records}
    print(json.dumps(asyncio.run(main())))
    """


@pytest.fixture(scope="module")
def url(triton_channel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a served channel: our packages and the stand-ins."""
    import rattler_build as rb

    root = tmp_path_factory.mktemp("served")
    shutil.copytree(triton_channel / "win-64", root / "win-64")
    for name, version, depends in STAND_INS:
        files = root / "files" / f"{name}-{version}"
        module = files / "Lib/site-packages" / name
        module.mkdir(parents=True)
        (module / "__init__.py").write_text("")
        tag = f"cp{version.replace('.', '')}"
        build = f"0_{tag}" if name == "python_abi" else "0"
        rb.assemble_package(
            name, version, "win-64", build, root / "win-64",
            files_dir=files, depends=depends, compression_level=1, detect_prefix=False,
        )  # fmt: skip
    shutil.rmtree(root / "files")
    index.index(root)
    with serve.server(root) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def install(url: str, prefix: Path, *specs: str) -> Any:
    return in_child(INSTALL, url, str(prefix), json.dumps(specs))


@pytest.fixture(scope="module")
def prefixes(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Environments for win-64 by their Triton, installed by rattler."""
    made = {}
    for triton, pytorch in (("3.2", "2.6.0"), ("3.6", "2.11.0"), ("3.7", "2.13.0")):
        prefix = tmp_path_factory.mktemp("prefix") / triton
        got = install(url, prefix, "triton-windows", f"pytorch =={pytorch}", "python 3.11.*")
        assert isinstance(got, dict), got
        assert got["triton-windows"][0].startswith(f"{triton}.")
        made[triton] = prefix
    return made


def test_an_environment_for_windows_is_installed_from_the_served_channel(
    prefixes: dict[str, Path], url: str, triton_channel: Path
) -> None:
    prefix = prefixes["3.7"]
    assert (prefix / "Lib/site-packages/triton/runtime/tcc/tcc.exe").exists()
    (record,) = prefix.glob("conda-meta/triton-windows-*.json")
    said = json.loads(record.read_text())
    name = "triton-windows-3.7.1.post27-py311_0.conda"
    assert said["url"] == f"{url}win-64/{name}"
    assert said["sha256"] == publish.sha256(triton_channel / "win-64" / name)


def test_on_python_3_12_triton_3_2_comes_with_pytorch_2_6(url: str, tmp_path: Path) -> None:
    got = install(url, tmp_path / "p", "triton-windows", "pytorch 2.6.*", "python 3.12.*")
    assert got["triton-windows"][1].endswith("triton-windows-3.2.0.post21-py312_0.conda")


def test_a_wrong_pair_cannot_be_installed(url: str, tmp_path: Path) -> None:
    got = install(url, tmp_path / "p", "triton-windows 3.7.*", "pytorch 2.6.*")
    assert "would constrain" in got
    assert not (tmp_path / "p").exists()


ARCHITECTURES = {"3.2": [75], "3.6": [86], "3.7": [86, 89, 90, 120]}


@pytest.mark.slow
@pytest.mark.parametrize("triton", ARCHITECTURES)
def test_a_windows_python_compiles_a_kernel_with_the_installed_package(
    triton: str, prefixes: dict[str, Path], windows_python: Interpreter, tmp_path: Path
) -> None:
    architectures = ARCHITECTURES[triton]
    script = tmp_path / "compile_kernel.py"
    shutil.copy(DATA / "compile_kernel.py", script)
    run = windows_python.run(
        windows_path(script),
        windows_path(tmp_path),
        *map(str, architectures),
        path=[prefixes[triton] / "Lib/site-packages"],
        environ={"TRITON_CACHE_DIR": windows_path(tmp_path / "cache")},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    version, _, module = run.stdout.strip().partition(" ")
    assert version.startswith(f"{triton}.")
    assert module.startswith(windows_path(prefixes[triton]))
    for architecture in architectures:
        assert sm_of((tmp_path / f"{architecture}.cubin").read_bytes()) == architecture


def sm_of(cubin: bytes) -> int:
    """The architecture in the flags of an ELF header made for CUDA (machine 190)."""
    assert cubin[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", cubin, 18) == (190,)
    (flags,) = struct.unpack_from("<I", cubin, 48)
    # CUDA's newer ELF version (OS/ABI 0x41, for sm_100 and up) keeps it one byte higher
    return int(flags >> 8 & 0xFF if cubin[7] == 0x41 else flags & 0xFF)
