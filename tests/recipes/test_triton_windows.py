"""triton-windows, built from the real wheels on this machine for win-64."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from smforge.channel import archive, build, bump, recipes
from smforge.errors import ToolchainError
from tests.recipes.conftest import DATA, RECIPES

SCRIPT = RECIPES / "triton-windows" / "build.py"
NEEDED = (
    "triton/runtime/tcc/tcc.exe",
    "triton/backends/nvidia/bin/ptxas.exe",
    "triton/backends/nvidia/include/cuda.h",
    "triton/backends/nvidia/lib/x64/cuda.lib",
    "triton/_C/libtriton.pyd",
)


def packages(channel: Path) -> list[Path]:
    return sorted(channel.glob("win-64/triton-windows-*.conda"))


def test_every_variant_is_built_for_win_64(triton_channel: Path) -> None:
    assert [path.name for path in packages(triton_channel)] == [
        "triton-windows-3.2.0.post21-py311_0.conda",
        "triton-windows-3.2.0.post21-py312_0.conda",
        "triton-windows-3.6.0.post26-py311_0.conda",
        "triton-windows-3.7.1.post27-py311_0.conda",
    ]


def test_a_package_holds_the_wheel_s_files_in_windows_layout(
    triton_channel: Path, wheelhouse: Path
) -> None:
    for package in packages(triton_channel):
        _, version, rest = package.stem.rsplit("-", 2)
        tag = f"cp{rest[2:5]}"
        there = archive.read_files(package, "pkg")
        name = f"triton_windows-{version}-{tag}-{tag}-win_amd64.whl"
        with zipfile.ZipFile(wheelhouse / name) as wheel:
            for name in NEEDED:
                assert there[f"Lib/site-packages/{name}"] == wheel.read(name), name
            missing = {f"Lib/site-packages/{n}" for n in wheel.namelist()} - set(there)
        assert missing == {f"Lib/site-packages/triton_windows-{version}.dist-info/RECORD"}
        info = f"Lib/site-packages/triton_windows-{version}.dist-info"
        assert there[f"{info}/INSTALLER"] == b"conda\n"


def test_a_package_says_what_it_needs_and_carries_its_licences(triton_channel: Path) -> None:
    info = archive.read_info(packages(triton_channel)[-1])
    record = json.loads(info["info/index.json"])
    assert "vc14_runtime >=14.42" in record["depends"]
    assert record["constrains"] == ["triton <0a0", "pytorch >=2.12,<2.14a0"]
    licences = {Path(name).name for name in info if name.startswith("info/licenses/")}
    assert licences == {"THIRD-PARTY.md", "tinycc-LGPL-2.1.txt", "triton-MIT.txt"}


@pytest.fixture
def environ(tmp_path: Path, wheelhouse: Path) -> dict[str, str]:
    """What rattler-build gives the script, for the variant 3.7.1."""
    wheel = bump.read_variants(RECIPES / "triton-windows" / "variants.yaml")[-1]
    (tmp_path / "work").mkdir()
    return os.environ | {
        "WHEEL_VERSION": wheel.version,
        "WHEEL_SHA256": wheel.sha256,
        "WHEEL_PYTHON": wheel.python.removesuffix(".*"),
        "SRC_DIR": str(tmp_path / "work"),
        "PREFIX": str(tmp_path / "prefix"),
        "PIP_NO_INDEX": "True",
        "PIP_FIND_LINKS": str(wheelhouse),
    }


def run_script(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_the_script_works_offline_and_again_over_its_own_remains(
    environ: dict[str, str], tmp_path: Path
) -> None:
    site_packages = tmp_path / "prefix/Lib/site-packages"
    stale = site_packages / "triton/stale.py"
    for _ in range(2):
        run = run_script(environ)
        assert run.returncode == 0, run.stdout + run.stderr
        assert not stale.exists()
        stale.write_text("left by an earlier try")
    assert len(list(site_packages.glob("triton_windows-*.dist-info"))) == 1


def test_a_wrong_hash_is_one_line_with_both_hashes(environ: dict[str, str]) -> None:
    right = environ["WHEEL_SHA256"]
    run = run_script(environ | {"WHEEL_SHA256": "0" * 64})
    (line,) = run.stderr.strip().splitlines()
    assert run.returncode == 1
    assert line.startswith("error: pip did not deliver triton-windows 3.7.1.post27")
    assert right in line
    assert "0" * 64 in line


def test_a_tampered_wheel_is_refused_and_nothing_is_unpacked(
    environ: dict[str, str], tmp_path: Path, wheelhouse: Path
) -> None:
    name = "triton_windows-3.7.1.post27-cp311-cp311-win_amd64.whl"
    data = bytearray((wheelhouse / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / name).write_bytes(data)
    run = run_script(environ | {"PIP_FIND_LINKS": str(tmp_path / "links")})
    assert run.returncode == 1
    assert hashlib.sha256(data).hexdigest() in run.stderr
    assert not (tmp_path / "prefix").exists()


def test_a_folder_without_the_wheel_says_what_to_set(
    environ: dict[str, str], tmp_path: Path
) -> None:
    index = {"PIP_INDEX_URL": tmp_path.as_uri(), "PIP_EXTRA_INDEX_URL": tmp_path.as_uri()}
    run = run_script(environ | index | {"PIP_FIND_LINKS": str(tmp_path)})
    assert run.returncode == 1
    assert "Could not find a version" in run.stderr
    assert "PIP_FIND_LINKS" in run.stderr


def test_a_wheel_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("triton_build", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wheel = tmp_path / "evil.whl"
    with zipfile.ZipFile(wheel, "w") as out:
        out.writestr("../../evil.py", "")
    with pytest.raises(SystemExit, match="leaves its folder"):
        module.unpack(wheel, tmp_path / "prefix" / "site-packages")
    assert not list(tmp_path.rglob("evil.py"))


SECRET = "hunter2-not-in-a-package"


def test_the_password_of_an_index_is_not_in_the_package(
    tmp_path: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pixi builds it: with the rendered recipe inside the package."""
    import rattler_build as rb

    monkeypatch.setenv("PIP_INDEX_URL", f"https://user:{SECRET}@index.invalid/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheelhouse))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    variant = recipes.render(RECIPES / "triton-windows")[-1]
    result = variant.rendered.run_build(
        tool_config=rb.ToolConfiguration(test_strategy="skip"),
        output_dir=tmp_path / "out",
        channels=[],
        package_format="conda:-7",
    )
    package = Path(result.packages[0])
    files = archive.read_info(package) | archive.read_files(package, "pkg")
    assert "info/recipe/rendered_recipe.yaml" in files
    assert not [name for name, data in files.items() if SECRET.encode() in data]


def test_the_script_hands_the_index_to_pip(environ: dict[str, str], tmp_path: Path) -> None:
    """The counterpart of the secret test: the setting does arrive."""
    del environ["PIP_FIND_LINKS"]
    run = run_script(environ | {"PIP_INDEX_URL": "http://127.0.0.1:1/simple", "PIP_RETRIES": "0"})
    assert run.returncode == 1
    assert "127.0.0.1" in run.stdout


def test_a_failed_build_is_one_line_and_leaves_the_channel_alone(
    tmp_path: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheelhouse))
    variants = tmp_path / "variants.yaml"
    variants.write_text((DATA / "variants-wine.yaml").read_text().replace("aa242efb", "00000000"))
    channel = tmp_path / "channel"
    with pytest.raises(ToolchainError, match="did not deliver triton-windows") as caught:
        build.build([RECIPES / "triton-windows"], channel, variants)
    assert "\n" not in str(caught.value)
    assert not [path for path in channel.rglob("*") if path.is_file()]


def test_a_built_package_is_rebuilt_byte_for_byte(
    triton_channel: Path, tmp_path: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheelhouse))
    again = tmp_path / "again"
    (built,) = build.build([RECIPES / "triton-windows"], again, DATA / "variants-wine.yaml")
    assert built.path.read_bytes() == (triton_channel / "win-64" / built.path.name).read_bytes()


def test_a_folder_of_wheels_without_the_wheel_is_one_place_beside_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = runpy.run_path(str(RECIPES / "triton-windows/build.py"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "True")  # rattler-build's own
    assert "PIP_NO_INDEX" not in script["pip_environment"]("1.0")
    (tmp_path / "triton_windows-1.0-cp311-cp311-win_amd64.whl").touch()
    assert script["pip_environment"]("1.0")["PIP_NO_INDEX"] == "1"
