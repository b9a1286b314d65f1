"""Which stack the wheel engine picks for a machine, and that the pins are those of tiers.toml."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from smforge import tiers
from smforge.errors import ConfigurationError, GPUError, ToolchainError
from smforge.probe.gpu import Machine
from smforge.wheels import interpreters, manifest, stack
from tests.conftest import machine

ROOT = Path(__file__).resolve().parents[2]
STACKS = sorted(tiers.load().wheels)
PINS = sorted([*ROOT.glob("envs/wheels/*.in"), *ROOT.glob("envs/tools/*.in")])


@pytest.fixture(autouse=True)
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Linux x86_64 machine, whatever this one is."""
    monkeypatch.setattr(stack.platform, "system", lambda: "Linux")
    monkeypatch.setattr(stack.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "linux")


@pytest.fixture(scope="module")
def found() -> manifest.Manifest:
    """The repository's own pixi.toml."""
    return manifest.find(None, ROOT, ROOT)


def choose(found: manifest.Manifest, environment: str, here: Machine) -> stack.Stack:
    return stack.choose(found, environment, here)


def test_no_card_gets_the_cpu_tier_with_the_newest_torch(found: manifest.Manifest) -> None:
    chosen = choose(found, "default", machine())
    assert (chosen.platform, chosen.wheels) == ("linux-64-cpu", "2.13.0")


def test_a_card_with_a_driver_for_cuda_13_gets_its_tier(found: manifest.Manifest) -> None:
    chosen = choose(found, "default", machine((9, 0), cuda=(13, 0)))
    assert (chosen.platform, chosen.wheels) == ("linux-64-sm90", "2.13.0")
    assert chosen.virtual_packages[:2] == ("__cuda=13.0", "__cuda_arch=9.0")


@pytest.mark.parametrize(
    ("capability", "cuda", "wheels"),
    [
        ((5, 2), (12, 2), "2.6.0"),
        ((6, 1), (13, 0), "2.6.0"),
        ((7, 0), (12, 0), "2.6.0"),
        ((8, 6), (12, 4), "2.6.0"),
        ((8, 6), (13, 0), "2.13.0"),
    ],
    ids=["maxwell", "pascal", "volta", "ampere-old-driver", "ampere"],
)
def test_older_cards_and_drivers_get_torch_2_6(found, capability, cuda, wheels) -> None:
    assert choose(found, "default", machine(capability, cuda=cuda)).wheels == wheels


def test_a_lower_tier_can_be_asked_for_by_name(found: manifest.Manifest) -> None:
    assert choose(found, "sm80", machine((8, 6), cuda=(13, 0))).tier == "sm80"


def test_a_card_that_no_wheels_carry_is_refused_and_pixi_named(found: manifest.Manifest) -> None:
    with pytest.raises(GPUError, match=r"no wheels of torch .*SMFORGE_ENGINE=pixi"):
        choose(found, "default", machine((3, 5), cuda=(11, 4)))


def test_a_driver_below_every_tiers_floor_is_refused(found: manifest.Manifest) -> None:
    with pytest.raises(GPUError, match=r"too old .* run -e cpu TASK"):
        choose(found, "default", machine((8, 6), cuda=(11, 0)))


@pytest.mark.parametrize(
    ("here", "message"),
    [
        (machine(), "no NVIDIA GPU with a working driver"),
        (
            machine((8, 0), cuda=(13, 0)),
            "needs compute capability 8.6 or higher, and Card 0 has 8.0",
        ),
        (machine((8, 6), cuda=(11, 4)), "CUDA 12.0 or newer, and driver 570.1 is for CUDA 11.4"),
    ],
    ids=["no-gpu", "older-card", "old-driver"],
)
def test_a_tier_by_name_needs_the_machine_for_it(
    found: manifest.Manifest, here: Machine, message: str
) -> None:
    with pytest.raises(GPUError, match=re.escape(message)):
        choose(found, "sm86", here)


def test_windows_gets_the_cpu_build_and_says_so(
    found: manifest.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack.platform, "system", lambda: "Windows")
    monkeypatch.setattr(stack.platform, "machine", lambda: "AMD64")
    chosen = choose(found, "default", machine((8, 6)))
    assert chosen.platform == "win-64-cpu"
    assert "your GPU is not used" in chosen.reason


def test_the_linters_environment_needs_no_card(found: manifest.Manifest) -> None:
    chosen = choose(found, "dev", machine())
    assert chosen.requirements.name == "lint.txt"
    assert chosen.wheels == ""


def test_another_system_is_told_which_there_are(
    found: manifest.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack.platform, "machine", lambda: "aarch64")
    with pytest.raises(ToolchainError, match="linux-64 and win-64"):
        choose(found, "default", machine())


def test_an_unknown_environment_is_named_with_those_there_are(found: manifest.Manifest) -> None:
    with pytest.raises(ConfigurationError, match=r"no environment 'sm87'; pixi\.toml has default"):
        choose(found, "sm87", machine())


def test_every_task_of_the_repository_can_be_planned(found: manifest.Manifest) -> None:
    for environment in found.environments:
        assert found.tasks(environment)


def test_every_environment_has_its_tier_from_activation(found: manifest.Manifest) -> None:
    for name in tiers.load().tiers:
        assert found.variables(name, f"linux-64-{name}")["SMFORGE_TIER"] == name


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_pins_the_torch_and_triton_of_the_table(name: str) -> None:
    pins = (ROOT / "envs" / "wheels" / f"{name}.txt").read_text()
    wheel = tiers.load().wheels[name]
    assert re.findall(r"^torch==(\S+)", pins, re.MULTILINE) == [wheel.torch]
    assert re.findall(r"^triton==(\S+)", pins, re.MULTILINE) == [wheel.triton]


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_was_measured_for_the_pythons_of_the_table(name: str) -> None:
    pins = (ROOT / "envs" / "wheels" / f"{name}.txt").read_text()
    measured = re.findall(r"^# download linux-64 (\S+): \d+$", pins, re.MULTILINE)
    wheel = tiers.load().wheels[name]
    assert (measured[0], measured[-1]) == (wheel.python[0], wheel.python[-1])


@pytest.mark.parametrize("source", PINS, ids=lambda path: path.stem)
def test_what_is_to_be_pinned_is_pinned_with_hashes_and_no_host(source: Path) -> None:
    pins = source.with_suffix(".txt").read_text()
    wanted = re.findall(r"^([\w-]+)", source.read_text(), re.MULTILINE)
    pinned = re.findall(r"^([\w.-]+)==\S+.* \\\n    --hash=sha256:", pins, re.MULTILINE)
    assert {name.lower().replace("_", "-") for name in wanted} <= set(pinned)
    assert len(pinned) == len(re.findall(r"^\w.*==", pins, re.MULTILINE))
    assert "://" not in pins


def test_another_python_is_looked_for_when_this_one_has_no_wheels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def probe(command: list[str]) -> tuple[Path, str] | None:
        asked.append(command[0])
        return (Path("/opt/python3.8"), "3.8") if command == ["python3.8"] else None

    monkeypatch.setattr(interpreters, "_probe", probe)
    assert interpreters.find("3.7", "3.9") == (Path("/opt/python3.8"), "3.8")
    assert asked == ["python3.9", "python3.8"]


def test_no_python_with_wheels_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "_probe", lambda command: None)
    with pytest.raises(ToolchainError, match=r"for Python 3.7 to 3.9 and this is 3\."):
        interpreters.find("3.7", "3.9")
