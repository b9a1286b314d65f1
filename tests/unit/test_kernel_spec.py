"""`smforge kernel`: what it writes, and Jupyter starting it through the wheel engine."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from smforge import cli, kernel_spec
from smforge.errors import ConfigurationError
from tests.unit.wheel_bed import REPOSITORY, make_bed, make_wheel


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jupyter's data folder of the test; no pixi on PATH."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setattr("shutil.which", lambda name: None)
    return tmp_path / "jupyter" / "kernels"


def written(path: Path) -> dict[str, object]:
    return json.loads((path / "kernel.json").read_text())  # type: ignore[no-any-return]


def test_the_kernel_starts_the_environments_python_through_pixiw(data: Path) -> None:
    assert cli.main(["kernel", "install", "-e", "sm86"]) == 0
    kernel = written(data / "smforge-sm86")
    wrapper = str(REPOSITORY / ("pixiw.bat" if sys.platform == "win32" else "pixiw"))
    manifest = ["run", "--manifest-path", str(REPOSITORY / "pixi.toml"), "-e", "sm86"]
    launch = ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    assert kernel["argv"] == [wrapper, *manifest, *launch]
    assert kernel["display_name"] == "Python (smforge sm86)"


def test_pixi_on_PATH_is_used(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/somewhere/pixi")
    monkeypatch.delenv("SMFORGE_WHEELS", raising=False)
    assert kernel_spec.launcher()[:2] == ["pixi", "run"]


def test_the_wheel_engine_stays_the_engine(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/somewhere/pixi")
    monkeypatch.setenv("SMFORGE_WHEELS", "2.13.0")
    assert Path(kernel_spec.launcher()[0]).stem == "pixiw"


def test_a_second_install_replaces_the_first(data: Path) -> None:
    for _ in range(2):
        assert cli.main(["kernel", "install"]) == 0
    assert [path.name for path in data.iterdir()] == ["smforge"]


def test_remove_takes_the_kernel_away(data: Path) -> None:
    cli.main(["kernel", "install", "-e", "cpu"])
    assert cli.main(["kernel", "remove", "-e", "cpu"]) == 0
    assert list(data.iterdir()) == []


def test_remove_without_a_kernel_is_a_configuration_error(data: Path) -> None:
    assert cli.main(["kernel", "remove", "-e", "cpu"]) == 2


def test_another_programs_kernel_stays(data: Path) -> None:
    (data / "smforge").mkdir(parents=True)
    (data / "smforge" / "kernel.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="another program's"):
        kernel_spec.install("default")
    with pytest.raises(ConfigurationError, match="another program's"):
        kernel_spec.remove("default")
    assert (data / "smforge" / "kernel.json").read_text() == "{}"


@pytest.mark.parametrize("name", ["sm999", "../cpu", ""])
def test_an_environment_that_is_none_is_a_configuration_error(data: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="no environment"):
        kernel_spec.install(name)


def test_without_JUPYTER_DATA_DIR_the_users_own_folder_is_taken(tmp_path: Path) -> None:
    if sys.platform == "win32":
        found = kernel_spec.folder("cpu", {"APPDATA": str(tmp_path)})
        assert found == tmp_path / "jupyter" / "kernels" / "smforge-cpu"
    else:
        found = kernel_spec.folder("cpu", {"XDG_DATA_HOME": str(tmp_path)})
        assert found == tmp_path / "jupyter" / "kernels" / "smforge-cpu"


def test_jupyter_starts_the_kernel_in_an_activated_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = pytest.importorskip("jupyter_client.manager", reason="no jupyter_client here")
    pytest.importorskip("ipykernel", reason="no ipykernel here")
    bed = make_bed(tmp_path / "workspace")
    shutil.copytree(REPOSITORY / "activation", bed.root / "activation")
    text = (bed.root / "pixi.toml").read_text().replace("activate.sh", "activation/activate.sh")
    (bed.root / "pixi.toml").write_text(text)
    # The workspace's only wheel also lends this Python's packages, ipykernel among them: in the
    # tool environment those of the environment below it as well.
    lent = {"lent.pth": "".join(f"{path}\n" for path in sys.path if path.endswith("-packages"))}
    _, sha256 = make_wheel(bed.home / "wheels", "torch", "2.13.0", lent)
    bed.pin("2.13.0", sha256)
    monkeypatch.setattr(kernel_spec, "workspace", lambda: bed.root)
    monkeypatch.setattr(kernel_spec, "in_workspace", lambda: True)
    for name in ("pixiw", "src"):
        (bed.root / name).symlink_to(REPOSITORY / name)
    environ = bed.environ(
        SMFORGE_ENGINE="wheels",
        JUPYTER_DATA_DIR=str(tmp_path / "jupyter"),
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    )
    monkeypatch.setattr(os, "environ", environ)
    assert cli.main(["kernel", "install", "-e", "cpu"]) == 0
    kernel = manager.KernelManager(kernel_name="smforge-cpu")
    kernel.start_kernel(env=environ, cwd=str(tmp_path))
    client = kernel.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=120)
        code = "import os, sys; print(os.environ['SMFORGE_STATUS'], sys.prefix, end='')"
        lines: list[str] = []
        client.execute_interactive(
            code + "; print('', os.environ['TRITON_CACHE_DIR'], end='')",
            output_hook=lambda message: lines.append(message["content"].get("text", "")),
            timeout=60,
        )
        status, prefix, cache = "".join(lines).split()
        assert status in ("ok", "no-gcc")
        assert prefix.startswith(str(bed.environments))
        assert "/smforge/t-" in cache
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
