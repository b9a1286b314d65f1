"""Training runs of a few thousand parameters: what they write, and how they stop and go on."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from smforge import checkpoint, cli
from smforge.engine import Engine
from smforge.errors import ConfigurationError, ToolchainError, VerificationError
from smforge.loop import Result
from smforge.stopping import Stopped
from smforge.train import train

SMALL = {
    "layers": 1, "heads": 2, "width": 16, "block_size": 16, "batch_size": 4,
    "steps": 12, "eval_every": 5, "warmup": 3, "tier": "cpu", "compile": False,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a few kilobytes to learn from."""
    text = "".join(f"line {n}: {n * n} is the square of {n}\n" for n in range(200))
    (tmp_path / "text.txt").write_text(text)
    return tmp_path


def small(folder: Path, **changes: Any) -> Result:
    """A finished run below `folder`."""
    settings = {**SMALL, "data": folder / "text.txt", "out": folder / "runs", **changes}
    result = train("tiny", **settings)
    assert result
    return result


def flags(folder: Path, **changes: Any) -> list[str]:
    """The same run as words of a command line."""
    settings = {**SMALL, "data": folder / "text.txt", "out": folder / "runs", **changes}
    words = ["--preset", "tiny"]
    for name, value in settings.items():
        flag = name.replace("_", "-")
        plain = {False: [f"--no-{flag}"], True: [f"--{flag}"]}
        words += plain[value] if isinstance(value, bool) else [f"--{flag}", str(value)]
    return words


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def losses(run: Path) -> list[tuple[int, float, float | None]]:
    return [(line["step"], line["loss"], line["val_loss"]) for line in metrics(run)]


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def at_step(monkeypatch: pytest.MonkeyPatch, step: int, action: Any) -> None:
    """Do something in the middle of a run, after the gradients of a step."""
    gradients, seen = Engine.gradients, []

    def gradients_and(self: Engine, *batch: torch.Tensor) -> float:
        loss = gradients(self, *batch)
        seen.append(loss)
        if len(seen) == step:
            action()
        return loss

    monkeypatch.setattr(Engine, "gradients", gradients_and)


# -------------------------------------------------------------------------------------------------
# A run
# -------------------------------------------------------------------------------------------------


def test_a_run_leaves_its_five_files(folder: Path) -> None:
    run = small(folder).run
    names = {"model.safetensors", "state.pt", "metrics.jsonl", "loss.png", "sample.txt"}
    assert {path.name for path in run.iterdir()} == names
    assert (run / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert (run / "sample.txt").read_text("utf-8").startswith("def ")


def test_every_step_has_a_line_and_some_have_a_validation_loss(folder: Path) -> None:
    lines = metrics(small(folder).run)
    assert [line["step"] for line in lines] == list(range(1, 13))
    assert [line["step"] for line in lines if line["val_loss"] is not None] == [5, 10, 12]
    assert all(set(line) == {"step", "loss", "val_loss", "tokens_per_s"} for line in lines)


def test_a_run_learns(folder: Path) -> None:
    result = small(folder, steps=150, lr=1e-2)
    assert result.val_loss < result.unigram
    assert result.loss < losses(result.run)[0][1] - 1


def test_the_same_seed_gives_the_same_losses_and_another_seed_others(folder: Path) -> None:
    first, again, other = (losses(small(folder, seed=seed).run) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_bfloat16_trains_on_the_cpu(folder: Path) -> None:
    assert small(folder, dtype="bfloat16").loss < 6


def test_each_decision_is_printed_once_with_its_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small(folder)
    text = capsys.readouterr().out
    for name in ("tier", "dtype", "tf32", "cudnn", "compile", "optimizer"):
        assert sum(line.startswith(f"{name} ") for line in text.splitlines()) == 1
    assert "eager: asked for with --no-compile" in text
    assert "byte pairs" in text.splitlines()[-1]


def test_without_a_terminal_there_are_plain_lines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train", *flags(folder)]) == 0
    printed = capsys.readouterr()
    assert not {"\x1b", "\r"} & set(printed.out)
    assert "step 12/12  loss" in printed.out
    assert printed.err == ""


def test_minutes_are_counted_after_step_10(folder: Path) -> None:
    result = small(folder, steps=0, minutes=0.002)
    assert result.steps > 10
    state = checkpoint.load(result.run)[1]
    assert state["settings"]["steps"] == result.steps


def test_training_works_outside_the_main_thread(folder: Path) -> None:
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(small(folder)))
    thread.start()
    thread.join()
    assert results[0].steps == 12


# -------------------------------------------------------------------------------------------------
# Stopping and going on
# -------------------------------------------------------------------------------------------------


def test_a_run_killed_at_any_point_goes_on_as_if_nothing_had_happened(folder: Path) -> None:
    # A step is a few milliseconds and writes a checkpoint: kills fall into the writing, too.
    whole = small(folder, steps=120, out=folder / "whole")
    killed = subprocess.Popen(
        [sys.executable, "-m", "smforge.train", *flags(folder, steps=120, save_every=0)],
        stdout=subprocess.DEVNULL,
    )
    enough = random.randint(1, 60)
    while killed.poll() is None:
        lines = list((folder / "runs").glob("*/metrics.jsonl"))
        if lines and lines[0].read_bytes().count(b"\n") >= enough:
            time.sleep(random.random() / 50)
            killed.kill()
    assert killed.wait() != 0, "the run ended before it was killed"
    resumed = train(resume=True, out=folder / "runs")
    assert resumed
    assert losses(resumed.run) == losses(whole.run)
    weights = [checkpoint.load(run)[0] for run in (whole.run, resumed.run)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
)
def test_a_signal_saves_and_exits_with_its_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    signum: int, code: int,
) -> None:  # fmt: skip
    whole = small(folder, out=folder / "whole")
    with monkeypatch.context() as patch:
        at_step(patch, 7, lambda: signal.raise_signal(signum))
        assert cli.main(["train", *flags(folder)]) == code
    run = only_run(folder)
    assert checkpoint.load(run)[1]["step"] == 6
    assert f"--resume {run}" in capsys.readouterr().out.splitlines()[-1]
    train(resume=run)
    assert losses(run) == losses(whole.run)


def test_a_second_signal_stops_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    at_step(monkeypatch, 7, twice)
    with pytest.raises(Stopped):
        small(folder)
    assert checkpoint.load(only_run(folder))[1]["step"] == 0


def test_a_signal_before_the_first_step_exits_with_its_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("smforge.data.load", lambda *_: signal.raise_signal(signal.SIGTERM))
    assert cli.main(["train", *flags(folder)]) == 143
    assert capsys.readouterr().err == "smforge: stopped by SIGTERM\n"


def test_signals_are_given_back(folder: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    small(folder)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_finished_run_goes_further_with_more_steps(folder: Path) -> None:
    run = small(folder).run
    result = train(resume=run, steps=20)
    assert result
    assert [line["step"] for line in metrics(run)] == list(range(1, 21))


def test_a_finished_run_says_that_it_is_finished(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small(folder).run
    before = losses(run)
    train(resume=run)
    assert "this run is finished at step 12: --steps N takes it further" in capsys.readouterr().out
    assert losses(run) == before


def test_a_half_written_line_of_metrics_is_dropped(folder: Path) -> None:
    run = small(folder).run
    before = losses(run)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 13, "lo')
    train(resume=run)
    assert losses(run) == before


def test_resuming_with_other_data_is_refused(folder: Path) -> None:
    run = small(folder).run
    (folder / "text.txt").write_text("something else entirely " * 200)
    with pytest.raises(ConfigurationError, match="the data has changed since"):
        train(resume=run)


def test_the_preset_of_a_run_may_be_repeated_but_not_changed(folder: Path) -> None:
    run = small(folder).run
    assert train("tiny", resume=run)
    with pytest.raises(ConfigurationError, match="--preset gpt2: the run to resume has tiny"):
        train("gpt2", resume=run)


# -------------------------------------------------------------------------------------------------
# What goes wrong
# -------------------------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_is_one_line_and_the_checkpoint_survives(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train", *flags(folder, lr=1e30, steps=200, save_every=0)]) == 5
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "the checkpoint of step" in error
    assert "smaller --lr" in error
    weights, _ = checkpoint.load(only_run(folder))
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


def test_a_checkpoint_is_only_written_once_the_next_loss_is_good(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Engine.update

    def spoil(self: Engine, lr: float) -> None:
        update(self, lr)
        if len(done := [*done_steps, lr]) == 4:
            with torch.no_grad():
                self.model.token.weight.fill_(float("nan"))
        done_steps[:] = done

    done_steps: list[float] = []
    monkeypatch.setattr(Engine, "update", spoil)
    with pytest.raises(VerificationError, match=r"step 5: the loss is nan.*checkpoint of step 3"):
        small(folder, save_every=0)
    weights, state = checkpoint.load(only_run(folder))
    assert state["step"] == 3
    assert torch.isfinite(weights["token.weight"]).all()


def test_a_full_disk_is_one_line_and_the_checkpoint_survives(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fsync, calls = os.fsync, []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    assert cli.main(["train", *flags(folder, save_every=0)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "No space left on device" in error
    assert "--resume" in error
    monkeypatch.setattr(os, "fsync", fsync)
    run = only_run(folder)
    assert f"step {checkpoint.load(run)[1]['step']} is whole" in error
    assert train(resume=run)


def test_a_reader_that_leaves_the_pipe_is_not_taken_for_a_full_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def left(*_: Any) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("smforge.progress.Bar.say", left)
    with pytest.raises(BrokenPipeError):
        small(folder)


def test_a_disk_that_is_full_from_the_start_is_said_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match=r"No space left on device\); make room$"):
        small(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "nowhere"}, "there is no such file or folder"),
        ({"block_size": 100_000}, "the data is too small"),
        ({"out": "text.txt"}, "--out"),
        ({"resume": "nowhere"}, "there is no checkpoint in this folder"),
        ({"heads": 3}, "must be a multiple of --heads 3"),
        ({"tier": "sm99"}, "no tier 'sm99'"),
        ({"compare": 5}, "torch.compile is off"),
        ({"compare": -3, "compile": True}, "--compare needs 2 steps or more"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input_is_one_line_and_exits_with_2(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    assert cli.main(["train", *flags(folder, **changes)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not (folder / "runs").exists()


def test_a_tier_that_cannot_run_here_exits_with_3(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "")
    assert cli.main(["train", *flags(folder, tier="sm90")]) == 3
    assert "needs a GPU of compute capability 9.0" in capsys.readouterr().err


# -------------------------------------------------------------------------------------------------
# Compiling
# -------------------------------------------------------------------------------------------------


def test_without_a_compiler_training_goes_on_in_eager_mode_and_says_so_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    result = small(folder, compile=True)
    assert "no-such-compiler not found" in result.compile_failure
    text = capsys.readouterr().out
    assert "torch.compile failed, going on in eager mode" in text
    assert "no-such-compiler not found" in text.splitlines()[-1]
    assert "Traceback" in (result.run / "compile.log").read_text()


def test_strict_makes_a_failed_compile_exit_with_4(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolchainError, match="no-such-compiler not found"):
        small(folder, compile=True, strict=True)
    assert ToolchainError.exit_code == 4


def test_a_step_that_fails_while_it_compiles_is_done_again_in_eager_mode(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(model: torch.nn.Module, **options: object) -> Any:
        def forward(*batch: torch.Tensor) -> torch.Tensor:
            model(*batch).backward()  # what a backward that fails halfway leaves behind
            raise RuntimeError("backend='inductor' raised:\nno kernel for this")

        return forward

    eager = losses(small(folder).run)
    monkeypatch.setattr(torch, "compile", broken)
    result = small(folder, compile=True)
    assert result.compile_failure.startswith("no kernel for this")
    assert losses(result.run) == eager


needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++") or shutil.which("cl")),
    reason="no C++ compiler on PATH",
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # torch's of its own modules
@needs_compiler
def test_compiled_steps_are_compared_with_eager_ones(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("tiny", **{**SMALL, "compile": True}, data=folder / "text.txt", compare=6,
                 out=folder / "runs", strict=True) is None  # fmt: skip
    figures = json.loads((only_run(folder) / "compare.json").read_text())
    assert figures["ratio"] > 0
    assert figures["compiled"]["first_step_s"] > figures["compiled"]["median_step_s"]
    assert figures["compiled"]["last_loss"] == pytest.approx(figures["eager"]["last_loss"], 1e-3)
    assert "ratio " in capsys.readouterr().out


# -------------------------------------------------------------------------------------------------
# The engine
# -------------------------------------------------------------------------------------------------


def test_a_batch_that_does_not_fit_is_computed_in_parts_with_the_same_result(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from smforge.model import GPT

    whole, forward = small(folder), GPT.forward

    def cramped(self: GPT, ids: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        if targets is not None and len(ids) > 1:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return forward(self, ids, targets)

    monkeypatch.setattr(GPT, "forward", cramped)
    parts = small(folder)
    assert "out of GPU memory: 1 sequences at a time, 4 times a step" in capsys.readouterr().out
    assert parts.loss == pytest.approx(whole.loss, rel=1e-4)


@pytest.mark.parametrize(
    ("count", "part", "smaller"), [(32, 32, 16), (12, 12, 6), (9, 9, 3), (5, 5, 1), (4, 1, 0)]
)
def test_parts_divide_the_batch(count: int, part: int, smaller: int) -> None:
    from smforge.engine import smaller_part

    assert smaller_part(count, part) == smaller
