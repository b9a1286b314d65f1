"""What decides a solve: virtual packages, targets, and the manifest's forms that are refused."""

from __future__ import annotations

import json

import pytest

from tests.manifest.lockspace import CHANNEL, lock, replace_in, tiny

pytest.importorskip("rattler", reason="py-rattler is not installed: ./pixiw run test has it")


def channel(folder, *records):
    """An index of small packages for linux-64: (name, version, depends)."""
    packages = {
        f"{name}-{version}-0.conda": {
            "name": name, "version": version, "build": "0", "build_number": 0,
            "subdir": "linux-64", "depends": depends, "sha256": "0" * 64, "md5": "0" * 32,
        }
        for name, version, depends in records
    }  # fmt: skip
    for subdir in ("linux-64", "win-64", "noarch"):
        index = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": {}}
        index["packages.conda"] = packages if subdir == "linux-64" else {}
        (folder / subdir).mkdir(parents=True)
        (folder / subdir / "repodata.json").write_text(json.dumps(index), "utf-8")
    return folder


def tiers(folder, dependencies):
    """A workspace with a platform for 8.0 and one for 9.0."""
    workspace = tiny(folder, dependencies)
    rows = [
        f'{{ name = "linux-64-sm{a}0", platform = "linux-64", '
        f'cuda = {{ driver = "12.0", arch = "{a}.0" }} }}'
        for a in (9, 8)
    ]
    replace_in(workspace / "pixi.toml", '["linux-64"]', f"[{', '.join(rows)}]")
    return workspace


def chosen(workspace) -> dict[str, set[str]]:
    from smforge.locks import manifest, read

    locked = read.load(workspace / "pixi.lock")
    return {
        platform.name: {package.label for package in locked.find("default", platform) or ()}
        for platform in manifest.load(workspace / "pixi.toml").platforms
    }


def test_an_architecture_decides_where_a_package_asks_for_it(tmp_path):
    index = channel(tmp_path / "c", ("kern", "1.0", []), ("kern", "2.0", ["__cuda_arch >=9"]))
    workspace = tiers(tmp_path / "w", 'kern = "*"')
    result = lock(workspace, "--channel-dir", index)
    assert result.returncode == 0, result.stderr
    assert chosen(workspace) == {"linux-64-sm90": {"kern 2.0"}, "linux-64-sm80": {"kern 1.0"}}
    assert lock(workspace, "--check").returncode == 0


def test_a_later_target_overwrites_an_earlier_one(tmp_path):
    index = channel(tmp_path / "c", *(("a", f"{n}.0", []) for n in (1, 2, 3)))
    targets = '[target.linux.dependencies]\na = "2.*"\n[target."*-sm80".dependencies]\na = "1.*"'
    workspace = tiers(tmp_path / "w", f'a = "*"\n{targets}')
    assert lock(workspace, "--channel-dir", index).returncode == 0
    assert chosen(workspace) == {"linux-64-sm90": {"a 2.0"}, "linux-64-sm80": {"a 1.0"}}


def test_specs_of_two_features_both_hold(tmp_path):
    index = channel(tmp_path / "c", *(("a", f"{n}.0", []) for n in (1, 2, 3)))
    features = '[feature.low.dependencies]\na = "<3"\n[environments]\nlow = ["low"]'
    workspace = tiny(tmp_path / "w", f'a = ">1"\n{features}')
    assert lock(workspace, "--channel-dir", index).returncode == 0
    from smforge.locks import read

    environments = read.load(workspace / "pixi.lock").environments
    (packages,) = environments["low"].packages.values()
    assert [package.label for package in packages] == ["a 2.0"]


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ('[pypi-dependencies]\nrich = "*"', "`pypi-dependencies`"),
        ('[feature.x.pypi-dependencies]\nrich = "*"', "`pypi-dependencies`"),
        ('[environments]\nx = { solve-group = "g" }', "`solve-group`"),
        ('[environments]\nx = ["nothing"]', "there is no [feature.nothing]"),
        ('[feature.x]\nplatforms = ["linux-65"]\n[environments]\nx = ["x"]', "linux-65"),
        ('[host-dependencies]\nrich = "*"', "`host-dependencies`"),
    ],
)
def test_what_would_lock_something_else_than_pixi_is_refused_by_name(tmp_path, extra, says):
    workspace = tiny(tmp_path / "w")
    with (workspace / "pixi.toml").open("a", encoding="utf-8") as file:
        file.write(extra + "\n")
    result = lock(workspace, "--channel-dir", CHANNEL)
    assert result.returncode == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ('a = { git = "https://example.invalid/a" }', "`git`"),
        ('a = { path = "../a" }', "expected a folder inside the workspace"),
        ('a = { path = "recipes/a" }', "recipes/a/recipe.yaml does not exist"),
        ("a = 3", "dependency a"),
        ('a = ">=1,<<2"', "a >=1,<<2"),
    ],
)
def test_a_dependency_that_cannot_be_solved_for_is_named(tmp_path, spec, says):
    workspace = tiny(tmp_path / "w", spec)
    result = lock(workspace, "--channel-dir", CHANNEL)
    assert result.returncode == 2, result.stderr
    assert says in result.stderr.splitlines()[-1]
