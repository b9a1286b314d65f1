"""Each audit rule finds the fault it is there for, in a lock that has just this one."""

from __future__ import annotations

import json
import re

import pytest

from smforge import tiers
from tests.conftest import ROOT
from tests.manifest.lockspace import committed, replace_in, smforge

pytest.importorskip("rattler", reason="py-rattler is not installed: ./pixiw run test has it")


@pytest.fixture(scope="module")
def view():
    """A function that gives the view of one platform of the committed lock, with changes."""
    from smforge.locks import audit, manifest, read

    workspace = manifest.load(ROOT / "pixi.toml")
    views = {v.platform.name: v for v in audit._views(workspace, read.load(ROOT / "pixi.lock"))}

    def changed(platform: str, **changes):
        from dataclasses import replace

        from smforge.locks.records import package_record

        found = views[platform]
        packages = dict(found.packages)
        for name, change in changes.items():
            key = next((n for n in packages if n.replace("-", "_") == name), name.replace("_", "-"))
            if change is None:
                del packages[key]
                continue
            version, build = change if isinstance(change, tuple) else (change, "0")
            old = packages.get(key) or next(iter(packages.values()))
            record = package_record(key, version, build, found.platform.subdir)
            packages[key] = replace(old, name=key, record=record, depends=(), constrains=())
        return replace(found, packages=packages)

    return changed


def ids(view, *rules) -> set[str]:
    from smforge.locks import audit_rules

    found = [f for rule in rules for f in getattr(audit_rules, rule)(view)]
    return {f.id for f in found if f.level != "info"}


@pytest.mark.parametrize("platform", ["win-64-sm86", "linux-64-sm70", "win-64-sm35", "win-64-cpu"])
def test_a_platform_as_it_is_has_no_error(view, platform):
    from smforge.locks import audit_rules

    found = list(audit_rules.view_rules(view(platform)))
    assert [f for f in found if f.level == "error"] == []


@pytest.mark.parametrize(
    ("platform", "changes", "rule", "expected"),
    [
        ("win-64-sm86", {"libuv": None}, "_closed", "A02"),
        ("win-64-sm86", {"triton": "3.7.0"}, "_closed", "A02"),
        ("win-64-sm86", {"pytorch": ("2.13.0", "cpu_mkl_py311_0")}, "_torch", "A11"),
        ("win-64-cpu", {"pytorch": ("2.13.0", "cuda128_py311_0")}, "_torch", "A11"),
        ("win-64-sm86", {"pytorch": None}, "_torch", "A11"),
        ("win-64-sm86", {"pytorch": ("2.12.1", "cuda128_py311_0")}, "_torch", "A12"),
        ("win-64-sm86", {"triton_windows": "3.6.0"}, "_triton", "A13"),
        ("win-64-sm86", {"triton_windows": None}, "_triton", "A13"),
        ("linux-64-sm75", {"triton": "3.3.0"}, "_triton", "A13"),
        ("win-64-sm120", {"cuda_nvcc_tools": "12.6.85"}, "_nvcc", "A15"),
        ("win-64-sm70", {"cuda_nvcc_tools": "13.0.88"}, "_nvcc", "A15"),
        ("win-64-sm86", {"cuda_nvcc_tools": None}, "_nvcc", "A15"),
        ("win-64-sm86", {"cuda_nvcc_tools": "19.1.0"}, "_nvcc", "A15"),
        ("linux-64-sm86", {"gcc_impl_linux_64": "15.2.0"}, "_host_compiler", "A16"),
        ("linux-64-sm86", {"cuda_cudart": "12.8.90"}, "_one_cuda", "A17"),
        ("linux-64-sm86", {"cuda_version": "12.8"}, "_one_cuda", "A17"),
        ("linux-64-sm61", {"libcudnn": "9.13.1.26"}, "_cudnn", "A18"),
        ("win-64-sm86", {"vc14_runtime": "14.40.33810"}, "_vc_runtime", "A21"),
        ("win-64-sm86", {"vc14_runtime": None}, "_vc_runtime", "A21"),
        ("linux-64-sm86", {"_openmp_mutex": None}, "_openmp", "A22"),
        ("win-64-sm86", {"intel_openmp": "2025.2.0"}, "_openmp", "A24"),
    ],
)
def test_a_fault_is_found(view, platform, changes, rule, expected):
    assert ids(view(platform), rule) == set()
    assert ids(view(platform, **changes), rule) == {expected}


def test_an_arch_list_without_the_tiers_card_is_found(view):
    from dataclasses import replace

    found = view("linux-64-sm86")
    turing = tiers.load()["sm75"]
    hopper = replace(found.tier, capability=(7, 0), stack={
        "linux-64": replace(turing.stack["linux-64"], arch_list=("8.0", "9.0+PTX"))})  # fmt: skip
    assert ids(replace(found, tier=hopper), "_arch_list") == {"A14"}


def test_a_package_without_hash_or_from_elsewhere_is_found():
    from smforge.locks import audit_rules, manifest, read

    workspace = manifest.load(ROOT / "pixi.toml")
    package = next(p for p in read.load(ROOT / "pixi.lock").packages.values() if p.url)
    from dataclasses import replace

    foreign = package.entry | {"conda": "https://example.invalid/win-64/a-1-0.conda", "sha256": ""}
    found = audit_rules._provenance(workspace, replace(package, entry=foreign))
    assert {f.id for f in found} == {"A03", "A04"}
    assert list(audit_rules._provenance(workspace, package)) == []


def test_json_holds_the_table_and_the_findings():
    result = smforge("audit", "--json")
    assert result.returncode == 0
    data = json.loads(result.stdout)
    assert data["errors"] == 0
    assert len(data["rows"]) == 28
    row = next(r for r in data["rows"] if r["platform"] == "win-64-sm86")
    assert row["environments"] == ["default", "sm86"]
    assert row["download"] > 2 * 2**30
    assert row["unknown_sizes"] == ["triton-windows"]
    assert all(re.fullmatch(r"A\d\d", f["id"]) for f in data["findings"])


def test_the_table_in_a_pipe_is_whole():
    lines = smforge("audit").stdout.splitlines()
    (row,) = [line.split() for line in lines if line.startswith("win-64-sm86 ")]
    assert row[1:3] == ["default,", "sm86"]
    assert row[-4:] == ["2.13.0", "12.8", "12.8.93", "3.7.1.post27"]
    assert lines[-1].startswith("0 errors")


def test_openmp_facts_are_told_once_with_who_wants_each():
    findings = json.loads(smforge("audit", "--json").stdout)["findings"]
    (both,) = [f for f in findings if f["id"] == "A23"]
    assert both["level"] == "info"
    assert len(both["where"]) > 20
    intel = [f for f in findings if f["id"] == "A24"]
    assert intel
    assert all("intel-openmp: " in f["text"] and f["level"] == "warning" for f in intel)


def test_a_stale_lock_is_an_error_of_the_audit(tmp_path):
    replace_in(committed(tmp_path) / "pixi.toml", 'rich = ">=13.7"', 'rich = ">=99"')
    result = smforge("audit", "--manifest-path", tmp_path)
    assert result.returncode == 2
    assert "A01 error: stale: pixi.toml requires rich >=99" in result.stdout
