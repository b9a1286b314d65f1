"""Which tier a machine gets, what a stack carries, and what fits."""

from __future__ import annotations

import itertools
import tomllib

import pytest

from smforge import tiers
from smforge.errors import ConfigurationError, GPUError
from tests.conftest import ROOT, machine

MANIFEST = tomllib.loads((ROOT / "pixi.toml").read_text("utf-8"))
CAPABILITIES = [None, (3, 0), (3, 5), (3, 7), (5, 0), (5, 2), (6, 0), (6, 1), (7, 0), (7, 2),
                (7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0),
                (12, 1), (13, 0)]  # fmt: skip
DRIVERS = [None, (10, 2), (11, 0), (11, 2), (11, 8), (12, 0), (12, 4), (12, 8), (13, 0)]


def first_platform(capability, driver, os):
    """pixi's rule, straight from pixi.toml: the first platform of `default` that is met."""
    subdir = tiers.SUBDIRS[os]
    auto = MANIFEST["feature"]["auto"]["platforms"]
    for platform in MANIFEST["workspace"]["platforms"]:
        if platform["platform"] != subdir or platform["name"] not in auto:
            continue
        needs = platform.get("cuda")
        if needs is None:
            return platform["name"].removeprefix(f"{subdir}-")
        floor = tuple(map(int, needs["driver"].split(".")))
        arch = tuple(map(int, needs["arch"].split(".")))
        if capability and driver and driver >= floor and capability >= arch:
            return platform["name"].removeprefix(f"{subdir}-")
    raise AssertionError("no platform at all")


@pytest.mark.parametrize("os", ["win", "linux"])
def test_pick_is_the_rule_by_which_pixi_chooses_among_the_declared_platforms(os):
    for capability, driver in itertools.product(CAPABILITIES, DRIVERS):
        tier, reason = tiers.pick(capability, driver, os)
        assert tier.name == first_platform(capability, driver, os), (capability, driver)
        assert "\n" not in reason


def test_an_old_driver_gets_the_lower_tier_and_is_told_which_driver_would_give_its_own():
    tier, reason = tiers.pick((12, 0), (12, 4), "win")
    assert tier.name == "sm90"
    assert "sm120" in reason
    assert "570.65" in reason


def test_an_old_driver_on_windows_never_gets_the_stack_that_is_built_from_source():
    tier, reason = tiers.pick((8, 6), (11, 8), "win")
    assert tier.name == "cpu"
    assert "527.41" in reason


def test_a_kepler_card_on_windows_is_told_how_to_ask_for_its_tier():
    tier, reason = tiers.pick((3, 5), (11, 4), "win")
    assert tier.name == "cpu"
    assert "-e sm35" in reason


def test_of_several_gpus_the_lowest_counts_and_the_reason_says_so():
    tier, reason = tiers.choose(machine((8, 9), (6, 1)), "linux")
    assert tier.name == "sm61"
    assert "lowest" in reason


@pytest.mark.parametrize(
    ("arch_list", "capability", "expected"),
    [
        (("8.6",), (8, 9), True),
        (("8.6",), (8, 0), False),
        (("8.6",), (9, 0), False),
        (("10.0", "12.0+PTX"), (11, 0), False),
        (("10.0", "12.0+PTX"), (12, 1), True),
        (("10.0", "12.0+PTX"), (13, 0), True),
        (("3.5",), (3, 7), True),
        ((), (8, 6), False),
    ],
)
def test_a_stack_carries_a_cubin_of_the_same_major_or_ptx_below(arch_list, capability, expected):
    assert tiers.carried(arch_list, capability) is expected


@pytest.mark.parametrize("subdir", ["win-64", "linux-64"])
def test_every_tier_carries_its_own_cards(subdir):
    for tier in tiers.load().gpu_tiers():
        assert tiers.carries(tier, tier.capability, subdir), tier.name


def installed(name, **extra):
    return {"SMFORGE_TIER": name, "PIXI_ENVIRONMENT_NAME": "default", **extra}


def test_an_environment_that_fits_gives_no_warning():
    fit = tiers.check_installed(installed("sm86"), machine((8, 6)))
    assert (fit.tier.name, fit.warning) == ("sm86", None)


def test_a_swapped_card_that_the_stack_carries_gives_one_warning_and_its_own_decisions():
    fit = tiers.check_installed(installed("sm86"), machine((7, 5)))
    assert fit.tier.name == "sm75"
    assert fit.installed.name == "sm86"
    assert "would get sm75" in fit.warning
    assert "pixiw install" in fit.warning


def test_a_swapped_card_that_the_stack_does_not_carry_stops():
    with pytest.raises(GPUError, match=r"no code for compute capability 3\.5.*pixiw install"):
        tiers.check_installed(installed("sm75"), machine((3, 5)))


def test_a_card_that_its_own_tier_does_not_carry_is_sent_to_the_cpu():
    with pytest.raises(GPUError, match=r"no tier carries compute capability 11\.0.*-e cpu"):
        tiers.check_installed(installed("sm100"), machine((11, 0), cuda=(13, 0)))


def test_a_driver_below_the_installed_stacks_floor_stops():
    with pytest.raises(GPUError, match="update the driver"):
        tiers.check_installed(installed("sm120"), machine((12, 0), cuda=(12, 4)))


def test_a_card_that_is_gone_stops():
    with pytest.raises(GPUError, match="pixiw install"):
        tiers.check_installed(installed("sm86"), machine())


def test_a_card_beside_a_cpu_install_gives_one_warning_and_stays_on_the_cpu():
    fit = tiers.check_installed(installed("cpu"), machine((8, 6)))
    assert fit.tier.name == "cpu"
    assert "takes sm86" in fit.warning


def test_the_wheel_engines_own_floor_counts():
    environ = installed("sm86", SMFORGE_WHEELS="2.13.0")
    with pytest.raises(GPUError, match=r"CUDA 13\.0"):
        tiers.check_installed(environ, machine((8, 6), cuda=(12, 8)))
    assert tiers.check_installed(environ, machine((8, 6), cuda=(13, 0))).warning is None


def test_a_lower_tier_that_was_asked_for_by_name_gives_no_warning():
    environ = installed("sm80", PIXI_ENVIRONMENT_NAME="sm80")
    assert tiers.check_installed(environ, machine((8, 6))).warning is None


def test_a_python_of_ones_own_takes_the_highest_tier_not_above_the_card_without_a_word():
    fit = tiers.check_installed({}, machine((8, 7), cuda=(11, 0)))
    assert (fit.tier.name, fit.installed, fit.warning) == ("sm86", None, None)


GOOD = (ROOT / "envs" / "tiers.toml").read_text("utf-8")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema = 1", "schema = 2", "schema is 2"),
        ('architecture = "Volta"', 'colour = "red"', r"\[tier.sm70\]: unknown key 'colour'"),
        ('architecture = "Volta"', "", r"\[tier.sm70\]: missing key 'architecture'"),
        ('architecture = "Volta"', "architecture = 7", r"\[tier.sm70\] key 'architecture'"),
        ('capability = "7.0"', 'capability = "7"', r"\[tier.sm70\] key 'capability': found '7'"),
        ('capability = "7.0"', 'capability = "7.5"', "does not fit the tier's name"),
        ('"2.6" = "3.2"', '"2.6" = "3.3"', r"\[stack.win-cuda126\] pairs torch 2.6 with"),
        ('"2.6" = "3.2"', "", "nothing of torch 2.6"),
        ('linux-64 = "linux-kepler"', 'linux-64 = "x"', r"\[tier.sm35\] key 'stack': linux-64"),
        ('fp8 = { level = "no", reason = "no CPU', 'fp8 = { level = "maybe", reason = "no CPU',
         r"\[tier.cpu\] key 'dtypes.fp8': found 'maybe'"),
        ('wheels = ["2.13.0"]', 'wheels = ["9.9"]', r"no table \[wheel.\"9.9\"\]"),
        ("[tier.cpu]\n", "[tier.cpu\n", "not valid TOML"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_named_in_one_line(tmp_path, old, new, message):
    assert old in GOOD
    path = tmp_path / "tiers.toml"
    path.write_text(GOOD.replace(old, new, 1), "utf-8")
    with pytest.raises(ConfigurationError, match=message) as error:
        tiers.load(path)
    assert "tiers.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_tiers_must_stand_in_rising_order(tmp_path):
    head, sm50, rest = GOOD.partition("[tier.sm50]")
    block, sm60, tail = rest.partition("[tier.sm60]")
    path = tmp_path / "tiers.toml"
    moved, sm70, end = tail.partition("[tier.sm70]")
    path.write_text(head + sm60 + moved + sm50 + block + sm70 + end, "utf-8")
    with pytest.raises(ConfigurationError, match="rising order"):
        tiers.load(path)


def test_cudnn_is_off_where_the_locked_version_does_not_know_the_card():
    assert [t.name for t in tiers.load().gpu_tiers() if not t.cudnn.value] == ["sm35"]
