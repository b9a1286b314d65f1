"""envs/<tier>/ for conda and mamba users is what `smforge export` makes of pixi.lock."""

from __future__ import annotations

import re
import shutil

import pytest

from smforge import tiers
from tests.conftest import ROOT
from tests.manifest.lockspace import committed, smforge

pytest.importorskip("rattler", reason="py-rattler is not installed: ./pixiw run test has it")

ENVS = ROOT / "envs"
EXPLICIT = sorted(ENVS.glob("*/*.explicit.txt"))


def test_the_committed_exports_are_what_export_writes():
    result = smforge("export", "--check")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout


def test_a_stale_missing_or_spare_export_is_named_and_export_mends_it(tmp_path):
    committed(tmp_path)
    shutil.copytree(ENVS, tmp_path / "envs")
    stale, missing = (tmp_path / "envs/cpu" / f"{name}.explicit.txt" for name in
                      ("win-64", "linux-64"))  # fmt: skip
    stale.write_text("@EXPLICIT\n", "utf-8")
    missing.unlink()
    spare = tmp_path / "envs/sm35/win-64.explicit.txt"
    spare.write_text("@EXPLICIT\n", "utf-8")
    result = smforge("export", "--check", "--manifest-path", tmp_path)
    assert result.returncode == 2
    assert sorted(result.stdout.split()) == sorted(
        ["stale:"] * 3
        + ["envs/cpu/win-64.explicit.txt", "envs/cpu/linux-64.explicit.txt"]
        + ["envs/sm35/win-64.explicit.txt"]
    )
    mended = smforge("export", "--manifest-path", tmp_path)
    assert mended.stdout == "wrote 2 of 51 files under envs/, removed 1\n"
    assert not spare.exists()


def test_every_tier_has_both_files_for_both_systems_but_explicit_for_win_64_sm35():
    found = {path.relative_to(ENVS).as_posix() for path in EXPLICIT}
    expected = {f"{t}/{s}.explicit.txt" for t in tiers.load().tiers for s in ("win-64", "linux-64")}
    assert found == expected - {"sm35/win-64.explicit.txt"}
    ymls = {path.relative_to(ENVS).as_posix() for path in ENVS.glob("*/*.environment.yml")}
    assert ymls == {name.replace(".explicit.txt", ".environment.yml") for name in expected}


@pytest.mark.parametrize("path", EXPLICIT, ids=lambda p: f"{p.parent.name}-{p.name.split('.')[0]}")
def test_an_explicit_file_is_read_by_rattler_and_pins_every_line(path):
    from rattler.explicit_environment.environment import ExplicitEnvironmentSpec

    text = path.read_text("utf-8")
    spec = ExplicitEnvironmentSpec.from_str(text)
    assert str(spec.platform) == path.name.split(".")[0]
    lines = [line for line in text.splitlines() if line.startswith("https")]
    assert len(spec.packages) == len(lines) > 100
    form = r"https://conda\.anaconda\.org/conda-forge/\S+\.(conda|tar\.bz2)#sha256:[0-9a-f]{64}"
    assert all(re.fullmatch(form, line) for line in lines)
    header = text.partition("@EXPLICIT")[0].splitlines()
    assert header[-1].startswith(f"#     conda install -n smforge-{path.parent.name} -c ./channel")
    assert any("24.9" in line for line in header)


def test_packages_stand_after_what_they_depend_on():
    from smforge.locks import read

    locked = read.load(ROOT / "pixi.lock").packages
    for path in EXPLICIT:
        lines = [x for x in path.read_text("utf-8").splitlines() if x.startswith("https")]
        names = [locked[line.partition("#")[0]].name for line in lines]
        python = names.index("python")
        needs = [n for n, _ in locked[lines[python].partition("#")[0]].depends]
        assert all(names.index(n) < python for n in needs if n in names)
        assert names.index("pytorch") > python


def test_our_own_packages_are_left_out_and_named_in_the_header():
    text = (ENVS / "sm86" / "win-64.explicit.txt").read_text("utf-8")
    assert "triton-windows" not in text.partition("@EXPLICIT")[2]
    assert re.search(
        r"-c \./channel -c conda-forge smforge triton-windows=3\.7\.1\.post\d+\n", text
    )


def test_an_environment_yml_names_the_tier_and_what_pixi_toml_names():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: ./pixiw run test has it")
    data = yaml.safe_load((ENVS / "sm86" / "win-64.environment.yml").read_text("utf-8"))
    assert data["name"] == "smforge-sm86"
    assert data["channels"] == ["conda-forge"]
    assert data["variables"] == {"SMFORGE_TIER": "sm86", "TORCH_CUDA_ARCH_LIST": "8.6"}
    names = [item.split("=")[0] for item in data["dependencies"]]
    assert {"python", "pytorch", "cuda-nvcc_win-64", "vc14_runtime"} <= set(names)
    assert all(re.fullmatch(r"[^=]+=[^=]+=[^=]+", item) for item in data["dependencies"])
