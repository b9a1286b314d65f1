"""The smforge package: installed from a channel, run, and activated as conda does it.

python and the other packages are stand-ins; the stand-in python is this machine's own, behind a
link.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from smforge.channel import archive, build, check, index
from smforge.channel.recipes import host_platform
from smforge.wine.prefix import windows_path
from tests.conftest import ROOT, skip_or_fail
from tests.recipes.conftest import RECIPES, in_child, rendered

if TYPE_CHECKING:
    from tests.windows.wine import Result

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in python is a link, which Windows has not"
)

INSTALL = """
    import asyncio, json, sys
    from rattler import *
    ours, others, prefix, platform = sys.argv[1:]
    async def main():
        records = await solve([Channel(ours), Channel(others)], ["smforge"],
                              gateway=Gateway(cache_dir=prefix + "-cache"),
                              platforms=[platform, "noarch"], virtual_packages=[])
        await install(records, prefix, cache_dir=prefix + "-packages", show_progress=False)
        return sorted(record.name.normalized for record in records)
    print(json.dumps(asyncio.run(main())))
    """


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A channel with the real smforge package."""
    folder = tmp_path_factory.mktemp("smforge") / "channel"
    build.build([RECIPES / "smforge"], folder)
    index.index(folder)
    return folder


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A channel with all that smforge depends on: this machine's python, the rest empty."""
    import rattler_build as rb

    root = tmp_path_factory.mktemp("stand-ins")
    (variant,) = rendered("smforge")
    for spec in variant.requirements["run"]:
        name = spec.split()[0]
        version = "99.0"
        files = root / "files" / name
        (files / "share").mkdir(parents=True)
        (files / "share" / f"{name}.txt").write_text("stand-in")
        if name == "python":
            version = ".".join(map(str, sys.version_info[:3]))
            put_python(files)
        rb.assemble_package(
            name, version, host_platform(), "0", root / host_platform(),
            files_dir=files, compression_level=1, detect_prefix=False,
        )  # fmt: skip
    shutil.rmtree(root / "files")
    index.index(root)
    return root


def put_python(files: Path) -> None:
    """A prefix whose python is this machine's, with site-packages of its own."""
    minor = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    real = Path(sys.base_prefix) / "bin" / minor
    (files / "bin").mkdir()
    for name in ("python", "python3", minor):
        (files / "bin" / name).symlink_to(real)
    (files / "pyvenv.cfg").write_text(f"home = {real.parent}\n")


@pytest.fixture(scope="module")
def prefix(channel: Path, stand_ins: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with smforge, installed by rattler."""
    folder = tmp_path_factory.mktemp("prefix") / "env"
    urls = channel.as_uri(), stand_ins.as_uri()
    names = in_child(INSTALL, *urls, str(folder), host_platform())
    assert "smforge" in names
    (folder / "conda-meta" / "history").write_text("==> 2026-11-21 12:00:00 <==\n")  # conda's
    return folder


def run_smforge(prefix: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SMFORGE"))}
    command = [str(prefix / "bin" / "smforge"), *words]
    return subprocess.run(
        command, env=environ, cwd=prefix.parent, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["tiers"], ["which", "--help"]])
def test_the_installed_command_runs_outside_of_a_checkout(prefix: Path, words: list[str]) -> None:
    run = run_smforge(prefix, *words)
    assert run.returncode == 0, run.stderr
    assert "smforge" in run.stdout or "sm86" in run.stdout


def test_a_maintainer_s_command_says_that_it_needs_a_checkout(prefix: Path) -> None:
    run = run_smforge(prefix, "channel", "build")
    assert run.returncode == 2
    assert "checkout" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_the_package_knows_its_version_and_leaves_the_wheel_engine_out(prefix: Path) -> None:
    (site_packages,) = prefix.glob("lib/python*/site-packages")
    assert not list(site_packages.glob("smforge/wheels*"))
    code = "import importlib.metadata as m; print(m.version('smforge'))"
    run = subprocess.run(
        [str(prefix / "bin/python"), "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == rendered("smforge")[0].version


def test_its_own_tests_pass_from_the_channel(channel: Path, stand_ins: Path) -> None:
    assert check.check(channel, [stand_ins.as_uri()]) == 1


def test_two_builds_of_the_package_are_the_same_bytes(channel: Path, tmp_path: Path) -> None:
    (again,) = build.build([RECIPES / "smforge"], tmp_path)
    assert again.path.read_bytes() == (channel / "noarch" / again.path.name).read_bytes()


def test_conda_index_makes_the_same_records(channel: Path, tmp_path: Path) -> None:
    """conda's own indexer over the same folder; it imports two names of conda, given here."""
    from smforge import tools

    try:
        packages = tools.tool_packages("conda-index")
    except Exception as error:
        skip_or_fail("network", f"conda-index cannot be fetched: {error}")
    stub = tmp_path / "stub" / "conda"
    for name, line in {
        "base/constants.py": 'PLATFORM_DIRECTORIES = ("noarch", "linux-64", "win-64")\n',
        "models/version.py": "from rattler import Version as VersionOrder\n",
    }.items():
        (stub / name).parent.mkdir(parents=True)
        (stub / name).parent.joinpath("__init__.py").touch()
        (stub / name).write_text(line)
    (stub / "__init__.py").touch()
    copy = tmp_path / "copy"
    (copy / "noarch").mkdir(parents=True)
    for package in channel.glob("noarch/*.conda"):
        shutil.copy(package, copy / "noarch")
    path = os.pathsep.join([str(stub.parent), str(packages)])
    run = subprocess.run(
        [sys.executable, "-m", "conda_index", str(copy)],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-500:]
    assert records(copy) == records(channel)


def records(channel: Path) -> dict[str, dict[str, Any]]:
    """The index without what only one of the indexers writes."""
    text = (channel / "noarch" / "repodata.json").read_text()
    packages: dict[str, dict[str, Any]] = json.loads(text)["packages.conda"]
    for record in packages.values():
        for key in ("indexed_timestamp", "arch", "platform"):
            record.pop(key, None)
    return packages


# -------------------------------------------------------------------------------------------------
# Activation
# -------------------------------------------------------------------------------------------------


@pytest.fixture(params=["bash", "dash", "zsh"])
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is missing here")
    return str(request.param)


BEFORE = {"CC": "my cc 'q\" $x", "CUDA_HOME": "", "CXX": None, "TRITON_CACHE_DIR": None}


def in_shell(shell: str, prefix: Path, script: str, path: str | None = None) -> dict[str, str]:
    """The environment at the end of a script that starts from BEFORE."""
    environ = {"HOME": str(prefix.parent), "PATH": path or os.environ["PATH"]}
    environ |= {"CONDA_PREFIX": str(prefix)} | {k: v for k, v in BEFORE.items() if v is not None}
    words = shlex.quote(sys.executable)
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    run = subprocess.run(
        [shutil.which(shell) or shell, "-c", f"{script}\n{words} -c {shlex.quote(code)}"],
        env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stderr == ""
    found: dict[str, str] = json.loads(run.stdout)
    return found


def source(*names: str) -> str:
    return "\n".join(f'. "$CONDA_PREFIX/etc/conda/{name}.d/smforge.sh"' for name in names)


def test_activation_sets_up_what_the_workspace_s_own_does(shell: str, prefix: Path) -> None:
    got = in_shell(shell, prefix, source("activate"))
    assert got["SMFORGE_STATUS"]
    assert got["PYTHONUTF8"] == "1"
    assert got["TRITON_CACHE_DIR"].startswith(str(prefix.parent))
    assert got["SMFORGE_BACKUP_CC"] == BEFORE["CC"]
    assert got["SMFORGE_BACKUP_CXX"] == "UNSET"


def test_activating_twice_keeps_what_was_there_first(shell: str, prefix: Path) -> None:
    once = in_shell(shell, prefix, source("activate"))
    twice = in_shell(shell, prefix, source("activate", "activate"))
    for got in (once, twice):
        del got["SMFORGE_REASON"]  # what was replaced is named when it is
    assert twice == once


def test_deactivation_restores_every_variable(shell: str, prefix: Path) -> None:
    before = in_shell(shell, prefix, ":")
    assert in_shell(shell, prefix, source("activate", "deactivate")) == before


def test_deactivating_what_was_not_activated_changes_nothing(shell: str, prefix: Path) -> None:
    before = in_shell(shell, prefix, ":")
    assert in_shell(shell, prefix, source("deactivate")) == before


def test_without_bash_the_status_is_off_and_says_why(prefix: Path, tmp_path: Path) -> None:
    for name in ("dash", "sh"):
        if found := shutil.which(name):
            (tmp_path / name).symlink_to(found)
    if not (tmp_path / "dash").exists():
        pytest.skip("dash is missing here")
    got = in_shell("dash", prefix, source("activate"), path=str(tmp_path))
    assert got["SMFORGE_STATUS"] == "off"
    assert "bash is missing" in got["SMFORGE_REASON"]
    assert got["CC"] == BEFORE["CC"]


def test_the_scripts_handle_every_variable_of_the_contract(channel: Path) -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("smforge_build", RECIPES / "smforge/build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    contract = module.contract((ROOT / "activation" / "README.md").read_text("utf-8"))
    (package,) = channel.glob("noarch/smforge-*.conda")
    files = archive.read_files(package, "pkg")
    for when in ("activate", "deactivate"):
        shell_script = files[f"etc/conda/{when}.d/smforge.sh"].decode()
        batch = files[f"etc/conda/{when}.d/smforge.bat"].decode()
        assert "\r\n" in batch
        assert batch.count("\n") == batch.count("\r\n")
        for name, where in contract.items():
            assert (f" {name} " in shell_script.replace("'", " ").replace(";", " ; ")) == (
                where != "windows"
            ), name
            assert (f"SMFORGE_BACKUP_{name}%" in batch or f"_{name}=" in batch) == (
                where != "linux"
            ), name


BATCH = """
call "%CONDA_PREFIX%\\etc\\conda\\activate.d\\smforge.bat"
call "%CONDA_PREFIX%\\etc\\conda\\activate.d\\smforge.bat"
echo "status=%SMFORGE_STATUS%
echo "backup=%SMFORGE_BACKUP_CC%,%SMFORGE_BACKUP_CXX%
call "%CONDA_PREFIX%\\etc\\conda\\deactivate.d\\smforge.bat"
echo "after=%CC%,%CXX%,%SMFORGE_STATUS%,%SMFORGE_BACKUP_CC%
set _smf
"""


def test_the_batch_scripts_keep_and_restore_under_wine(
    prefix: Path, wine_cmd: Callable[..., Result]
) -> None:
    given = {"CONDA_PREFIX": windows_path(prefix), "CC": r"C:\a (x86) & b\cl.exe"}
    run = wine_cmd(BATCH, given)
    lines = dict(line.strip('"').split("=", 1) for line in run.stdout.splitlines() if "=" in line)
    assert lines["status"] not in ("", "%SMFORGE_STATUS%")
    assert lines["backup"] == r"C:\a (x86) & b\cl.exe,UNSET"
    assert lines["after"] == r"C:\a (x86) & b\cl.exe,,,"
    assert not [name for name in lines if name.startswith("_smf")]
