"""Settings: presets, flags, checks, and what a resumed run may change."""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from smforge import cli, options, train
from smforge.errors import ConfigurationError

TINY = options.preset_of(train.Settings, train.PRESETS, "tiny")


def parsed(*words: str) -> dict[str, Any]:
    """The settings that these words give, without running anything."""
    return vars(cli.build_parser("train").parse_args(["train", *words]))


def test_only_what_was_given_comes_from_the_command_line() -> None:
    given = parsed("--steps", "7", "--no-compile", "--data", "a", "b")
    assert (given["steps"], given["compile"], given["data"]) == (7, False, ["a", "b"])
    assert "width" not in given


def test_resume_takes_a_folder_or_none() -> None:
    assert parsed("--resume")["resume"] is True
    assert parsed("--resume", "runs/x")["resume"] == "runs/x"
    assert parsed()["resume"] is False


def test_every_setting_is_a_flag_and_its_help_names_the_presets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["train", "--help"])
    text = capsys.readouterr().out
    for name in asdict(TINY):
        assert f"--{name.replace('_', '-')}" in text
    assert "(tiny 192, gpt2 768)" in " ".join(text.split())
    assert "./pixiw run train --resume" in text


def test_help_needs_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; from smforge import cli; cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "train", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_missing_package_is_one_line_with_the_command_that_mends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    assert cli.main(["train"]) == 4
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "safetensors" in error
    assert "install" in error


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"heads": 5}, "--width 192 must be a multiple of --heads 5: --width 195 is"),
        ({"batch_size": 0}, "--batch-size must be 1 or more, not 0"),
        ({"lr": 0.0}, "--lr must be above 0, not 0.0"),
        ({"lr": float("nan")}, "--lr must be above 0, not nan"),
        ({"minutes": float("inf")}, "--minutes must be finite, not inf"),
        ({"seed": 2**63}, "--seed must be below 2 to the 63"),
        ({"data": ""}, "--data has an empty path"),
        ({"vocabulary": 100}, "--vocabulary must be 256 or more"),
        ({"dtype": "float8"}, "--dtype must be float32, bfloat16 or float16, not float8"),
        ({"steps": 0}, "--minutes must be above 0 where --steps is 0"),
        ({"steps": 5, "minutes": 2.0}, "give one of them"),
        ({"stpes": 5}, "there is no setting 'stpes'; did you mean steps?"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_value_that_makes_no_sense_is_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        options.resolve(TINY, given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_minutes_take_the_place_of_the_presets_steps() -> None:
    chosen = options.resolve(TINY, {"minutes": 2.0})
    assert (chosen.steps, chosen.minutes) == (0, 2.0)


def test_one_path_is_as_good_as_a_list() -> None:
    assert options.resolve(TINY, {"data": "x"}).data == (str(Path("x").absolute()),)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match="tiny or gpt2, not huge"):
        options.preset_of(train.Settings, train.PRESETS, "huge")


def test_a_resumed_run_may_go_further_but_not_become_another() -> None:
    saved = asdict(TINY)
    assert options.resumed(train.Settings, saved, {"steps": 900}).steps == 900
    assert options.resumed(train.Settings, saved, {"width": TINY.width}) == TINY
    with pytest.raises(ConfigurationError, match="--width 64: the run to resume has 192"):
        options.resumed(train.Settings, saved, {"width": 64})


def test_the_learning_rate_rises_then_falls() -> None:
    from smforge.loop import FINAL_LR, rate

    rates = [rate(TINY, step) for step in range(TINY.steps)]
    assert max(rates) == pytest.approx(TINY.lr)
    assert rates.index(max(rates)) in (TINY.warmup - 1, TINY.warmup)
    assert rates[-1] == pytest.approx(TINY.lr * FINAL_LR, rel=0.05)


def test_without_an_end_the_learning_rate_stays() -> None:
    from smforge.loop import rate

    open_end = options.resolve(TINY, {"minutes": 1.0})
    assert rate(open_end, 10_000) == TINY.lr


def test_a_run_shorter_than_the_warmup_still_reaches_its_rate() -> None:
    from smforge.loop import rate

    short = options.resolve(TINY, {"steps": 4})
    assert max(rate(short, step) for step in range(4)) == pytest.approx(TINY.lr)


def test_a_wrong_option_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "--stpes", "5"]) == 2
    assert "--stpes" in capsys.readouterr().err


def test_the_parser_is_built_from_the_settings_alone() -> None:
    parser = argparse.ArgumentParser()
    options.add_flags(parser, train.Settings)
    assert vars(parser.parse_args([])) == {}
