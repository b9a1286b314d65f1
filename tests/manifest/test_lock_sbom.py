"""`smforge sbom`: valid CycloneDX that holds what the lock holds."""

from __future__ import annotations

import json

import pytest

from tests.conftest import ROOT
from tests.manifest.lockspace import smforge

pytest.importorskip("rattler", reason="py-rattler is not installed: ./pixiw run test has it")
pytest.importorskip("cyclonedx", reason="cyclonedx is not installed: ./pixiw run test has it")


@pytest.fixture(scope="module")
def bill(tmp_path_factory):
    path = tmp_path_factory.mktemp("sbom") / "sm86.cdx.json"
    result = smforge("sbom", "-e", "sm86", "-p", "win-64", "-o", path)
    assert result.returncode == 0, result.stderr
    return path.read_text("utf-8")


def test_it_is_valid_cyclonedx_1_6(bill):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None


def test_it_holds_every_locked_package_with_its_hash_and_address(bill):
    from smforge.locks import manifest, read

    platform = next(
        p for p in manifest.load(ROOT / "pixi.toml").platforms if p.name == "win-64-sm86"
    )
    locked = {p.name: p for p in read.load(ROOT / "pixi.lock").find("sm86", platform) or ()}
    components = {c["name"]: c for c in json.loads(bill)["components"]}
    assert components.keys() == locked.keys()
    for name, component in components.items():
        if url := locked[name].url:
            hashes = {h["alg"]: h["content"] for h in component["hashes"]}
            assert hashes["SHA-256"] == locked[name].entry["sha256"]
            assert component["externalReferences"][0]["url"] == url
            assert component["purl"].startswith(f"pkg:conda/{name}@")


def test_a_package_of_ours_names_its_recipe_and_its_real_version(bill):
    components = {c["name"]: c for c in json.loads(bill)["components"]}
    triton = components["triton-windows"]
    assert triton["version"].startswith("3.7.1.post")
    assert triton["properties"] == [{"name": "smforge:recipe", "value": "recipes/triton-windows"}]


def test_it_holds_who_depends_on_whom(bill):
    data = json.loads(bill)
    needs = {d["ref"]: d.get("dependsOn", []) for d in data["dependencies"]}
    (torch,) = [ref for ref in needs if ref.startswith("pytorch-2")]
    assert any(ref.startswith("libtorch-") for ref in needs[torch])
    assert len(needs["smforge-sm86-win-64-sm86"]) == len(data["components"])


def test_the_same_lock_gives_the_same_bytes(bill):
    assert smforge("sbom", "-e", "sm86", "-p", "win-64-sm86").stdout == bill


@pytest.mark.parametrize(
    ("environment", "platform", "says"),
    [
        ("sm87", "win-64", "has no environment sm87: expected one of default,"),
        ("sm86", "osx-arm64", "names 0 platforms of sm86: expected one of win-64-sm86,"),
        ("default", "win-64", "platforms of default: expected one of"),
    ],
)
def test_an_unknown_name_gives_one_line_with_the_known_ones(environment, platform, says):
    result = smforge("sbom", "-e", environment, "-p", platform)
    assert result.returncode == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
