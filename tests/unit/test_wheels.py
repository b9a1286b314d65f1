"""The wheel engine on a small workspace: real venv and pip, wheels of its own, no network."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smforge import venvs
from smforge.errors import ToolchainError
from smforge.probe.gpu import Machine
from smforge.wheels import environment, manifest, stack
from tests.unit.wheel_bed import Bed, make_bed, make_wheel

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the bed's activation script is for bash; no Windows run yet"
)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bed, str]:
    """A workspace, and what the start that built its environment said."""
    bed = make_bed(tmp_path_factory.mktemp("bed") / "workspace")
    done = bed.run("install")
    assert done.returncode == 0, done.stderr
    return bed, done.stderr


@pytest.fixture
def bed(first: tuple[Bed, str]) -> Bed:
    """A workspace whose environment is there."""
    return first[0]


def python_of(bed: Bed) -> Path:
    """The interpreter of the bed's environment."""
    return venvs.python_of(Path(json.loads(bed.run("info", "--json").stdout)["prefix"]))


def shown(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What show.py printed."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_the_first_start_says_what_it_is_and_how_much_it_downloads(
    first: tuple[Bed, str],
) -> None:
    bed, said = first
    assert "this is the wheel engine, not pixi" in said
    assert "downloading 4 MB" in said
    assert bed.run("run", "show").stderr == "smforge: show: python show.py\n"


def test_a_task_runs_in_the_workspace_with_its_arguments(bed: Bed) -> None:
    answer = shown(bed.run("run", "show", "--steps", "3", "a b"))
    assert answer["argv"] == ["--steps", "3", "a b"]
    assert answer["cwd"] == str(bed.root)


def test_two_dashes_before_the_arguments_are_dropped_as_in_pixi(bed: Bed) -> None:
    assert shown(bed.run("run", "show", "--", "--steps"))["argv"] == ["--steps"]


def test_the_python_of_a_task_is_the_environments(bed: Bed) -> None:
    answer = shown(bed.run("run", "show"))
    assert Path(answer["prefix"]).parent == bed.environments
    assert answer["env"]["CONDA_PREFIX"] == answer["prefix"]


def test_pixis_variables_are_set(bed: Bed) -> None:
    variables = shown(bed.run("run", "-e", "cpu", "show"))["env"]
    assert variables["PIXI_PROJECT_ROOT"] == str(bed.root)
    assert variables["PIXI_PROJECT_MANIFEST"] == str(bed.root / "pixi.toml")
    assert variables["PIXI_PROJECT_NAME"] == "bed"
    assert variables["CONDA_DEFAULT_ENV"] == "bed:cpu"
    assert variables["PIXI_ENVIRONMENT_NAME"] == "cpu"
    assert variables["PIXI_ENVIRONMENT_PLATFORMS"] == "linux-64-cpu"
    assert variables["INIT_CWD"] == str(bed.root)
    assert variables["SMFORGE_WHEELS"] == "2.13.0"


def test_activation_applies_scripts_then_variables_and_an_unset_is_lost(bed: Bed) -> None:
    variables = shown(bed.run("run", "show"))["env"]
    assert variables["FROM_SCRIPT"] == variables["CONDA_PREFIX"]
    assert variables["PLAIN"] == "everywhere"
    assert variables["SMFORGE_TIER"] == "cpu"
    assert variables["SHADOWED"] == "cpu"  # after the script, and the target beats the feature
    assert variables["OUTER"] == "kept"  # pixi keeps what a script unsets


def test_a_tasks_own_variables_beat_activation(bed: Bed) -> None:
    assert shown(bed.run("run", "named"))["env"]["PLAIN"] == "task"


def test_the_prefix_is_described_as_pixi_describes_it(bed: Bed) -> None:
    (file,) = bed.environments.glob("cpu-*/conda-meta/pixi")
    lines = file.read_text().splitlines()
    assert any(line.startswith('  "environment_lock_file_hash": "') for line in lines)
    platform = json.loads(file.read_text())["resolved_platform"]
    assert platform["subdir"] == "linux-64"
    assert "__unix=0=0" in platform["virtual_packages"]


def test_exit_codes_are_passed_on(bed: Bed) -> None:
    assert bed.run("run", "five").returncode == 5
    assert bed.run("run", "python", "exit.py", "7").returncode == 7


def test_a_signal_ends_the_task_itself(bed: Bed) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert bed.run("run", "python", "-c", code).returncode == -signal.SIGTERM


def test_dependencies_run_first_and_stop_at_the_first_failure(bed: Bed) -> None:
    for name in ("first", "never"):
        (bed.root / f"{name}.ran").unlink(missing_ok=True)
    assert bed.run("run", "never").returncode == 5
    assert (bed.root / "first.ran").exists()
    assert not (bed.root / "never.ran").exists()


def test_a_shared_dependency_runs_once(bed: Bed) -> None:
    done = bed.run("run", "pair")
    assert shown(done)["argv"] == ["after"]
    assert done.stderr.count("first: python touch.py") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nothing"], "'nothing' is neither a task nor a program"),
        (["run", "circle"], "circle: circle -> circle2 -> circle"),
        (["run", "-e", "sm12", "show"], "no environment 'sm12'; pixi.toml has default, sm90, cpu"),
        (["run", "pair", "--steps"], "task 'pair' only runs other tasks"),
        (["run", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["install", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["shell"], "the wheel engine has no 'shell'"),
        (["run", "--manifest-path", "absent.toml", "show"], "absent.toml: cannot be read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_is_one_line_and_exit_2(bed: Bed, words: list[str], message: str) -> None:
    done = bed.run(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_tier_this_machine_cannot_run_is_exit_3(bed: Bed) -> None:
    done = bed.run("run", "-e", "sm90", "show")
    assert done.returncode == 3
    assert "no NVIDIA GPU with a working driver was found" in done.stderr


def test_run_alone_lists_the_tasks(bed: Bed) -> None:
    done = bed.run("run")
    assert done.returncode == 0
    assert "show         Print what the task sees" in done.stdout
    assert "_check" not in done.stdout


def test_info_says_where_the_environment_lies(bed: Bed) -> None:
    answer = json.loads(bed.run("info", "--json").stdout)
    assert answer["installed"] is True
    assert answer["pins"] == "envs/wheels/2.13.0.txt"


def test_a_task_of_the_dev_feature_runs_with_the_linters_pins(tmp_path: Path) -> None:
    bed = make_bed(tmp_path / "workspace")
    files = {
        "checker.py": "def main():\n    print('checked')\n    return 4\n",
        "checker-1.0.dist-info/entry_points.txt": "[console_scripts]\nchecker = checker:main\n",
    }
    _, sha256 = make_wheel(bed.home / "wheels", "checker", "1.0", files)
    (bed.root / "envs" / "tools").mkdir()
    (bed.root / "envs/tools/lint.txt").write_text(f"checker==1.0 --hash=sha256:{sha256}\n")
    done = bed.run("run", "check")
    assert (done.returncode, done.stdout) == (4, "checked\n")


def test_two_starts_at_once_build_once(tmp_path: Path) -> None:
    bed = make_bed(tmp_path / "workspace")
    both = [
        subprocess.Popen(
            bed.command("run", "show"),
            cwd=bed.root,
            env=bed.environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [json.loads(out)["torch"] for out, _ in outputs] == ["2.13.0", "2.13.0"]
    errors = "".join(error for _, error in outputs)
    assert errors.count("environment ready") == 1
    assert "waiting for it" in errors


def test_a_path_with_a_blank_and_a_letter_outside_ascii_uses_the_users_cache(
    tmp_path: Path,
) -> None:
    bed = make_bed(tmp_path / "wörk spacé")
    answer = shown(bed.run("run", "show"))
    assert Path(answer["prefix"]).parent == bed.home / "cache" / "smforge" / "envs"
    assert answer["cwd"] == str(bed.root)
    assert answer["env"]["FROM_SCRIPT"] == answer["prefix"]


def test_a_cache_that_others_can_write_is_refused(tmp_path: Path) -> None:
    bed = make_bed(tmp_path / "a b")
    cache = bed.home / "cache" / "smforge"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    done = bed.run("run", "show")
    assert done.returncode == 4
    assert "can be written by others: run chmod 700" in done.stderr


def test_a_cache_that_cannot_be_made_is_one_line_and_exit_4(tmp_path: Path) -> None:
    bed = make_bed(tmp_path / "a b")
    bed.home.mkdir(parents=True, exist_ok=True)
    (bed.home / "cache").write_text("a file in its place")
    done = bed.run("run", "show")
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert str(bed.home / "cache") in done.stderr


@pytest.fixture
def script(bed: Bed) -> Iterator[Path]:
    """The bed's activation script, restored after the test."""
    path = bed.root / "activate.sh"
    text = path.read_text()
    yield path
    path.write_text(text)


def test_a_failed_activation_script_is_one_line_and_exit_4(bed: Bed, script: Path) -> None:
    script.write_text("echo broken >&2\nexit 7\n")
    done = bed.run("run", "show")
    assert done.returncode == 4
    assert "activation (activate.sh) failed with status 7: broken" in done.stderr


def test_a_missing_activation_script_is_a_warning(bed: Bed, script: Path) -> None:
    script.unlink()
    done = bed.run("run", "show")
    assert "FROM_SCRIPT" not in shown(done)["env"]
    assert "warning: activation script activate.sh is missing" in done.stderr


def test_the_manifest_is_found_from_a_folder_below(bed: Bed) -> None:
    below = bed.root / "below"
    below.mkdir(exist_ok=True)
    done = subprocess.run(
        bed.command("run", "show"),
        cwd=below,
        env=bed.environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown(done)["env"]["INIT_CWD"] == str(below)
    assert shown(done)["cwd"] == str(bed.root)


def test_a_changed_pin_builds_anew_and_names_the_old_environment(bed: Bed) -> None:
    (old,) = bed.environments.glob("cpu-*/")
    pins = bed.root / "envs" / "wheels" / "2.13.0.txt"
    before = pins.read_text()
    torch = {"torch/__init__.py": "__version__ = '2.13.1'\n"}
    bed.pin("2.13.1", make_wheel(bed.home / "wheels", "torch", "2.13.1", torch)[1])
    done = bed.run("run", "show")
    pins.write_text(before)
    assert shown(done)["torch"] == "2.13.1"
    assert f"no longer used, remove it when you like: {old}" in done.stderr
    assert old.exists()


def test_a_wheel_that_does_not_match_its_hash_is_refused(bed: Bed, tmp_path: Path) -> None:
    python, wheels = python_of(bed), bed.home / "wheels"
    pins, log = tmp_path / "pins.txt", tmp_path / "log"
    make_wheel(wheels, "changed", "1.0", {"changed.py": ""})
    pins.write_text(f"changed==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(ToolchainError, match=r"^changed==1\.0 does not match its pinned sha256"):
        venvs.pip_install(python, pins, log, "--no-index", f"--find-links={wheels.as_uri()}")
    assert not list(python.parents[1].glob("lib/*/site-packages/changed*"))


def test_no_network_is_one_line(bed: Bed, tmp_path: Path) -> None:
    python, index = python_of(bed), "--index-url=https://127.0.0.1:9/simple"
    pins = tmp_path / "pins.txt"
    pins.write_text(f"absent==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(ToolchainError, match=r"^no network: pip cannot reach its index"):
        venvs.pip_install(python, pins, tmp_path / "log", index)


def interrupt(bed: Bed, how: signal.Signals) -> int:
    """Start the engine, end its build by a signal to all its processes, return its exit code."""
    process = subprocess.Popen(
        bed.command("run", "show"),
        cwd=bed.root,
        env=bed.environ(),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(bed.environments.glob("*/pyvenv.cfg")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, how)
    return process.wait()


def test_an_interrupted_build_is_never_taken_for_a_finished_one(tmp_path: Path) -> None:
    bed = make_bed(tmp_path / "workspace")
    assert interrupt(bed, signal.SIGKILL) == -signal.SIGKILL
    assert not list(bed.environments.glob("*/.complete"))
    again = bed.run("run", "show")
    assert shown(again)["torch"] == "2.13.0"
    assert "was interrupted; building it again" in again.stderr


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_build_stopped_by_a_signal_exits_with_its_code(
    tmp_path: Path, how: signal.Signals, code: int
) -> None:
    bed = make_bed(tmp_path / "workspace")
    assert interrupt(bed, how) == code
    assert not list(bed.environments.glob("*/.complete"))


def test_a_cache_path_with_a_blank_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bed = make_bed(tmp_path / "a b" / "workspace")
    monkeypatch.setenv("XDG_CACHE_HOME", str(bed.home / "cache"))
    monkeypatch.setattr(venvs, "create", lambda folder, python: folder.mkdir(parents=True))
    monkeypatch.setattr(venvs, "pip_install", lambda *words: None)
    found = manifest.find(None, bed.root, bed.root)
    prefix = environment.prepare(found, stack.choose(found, "cpu", Machine()))
    assert prefix.is_relative_to(bed.home / "cache")
    assert "set XDG_CACHE_HOME" in capsys.readouterr().err
