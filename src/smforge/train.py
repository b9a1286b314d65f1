"""Train a small GPT on this machine.

    ./pixiw run train                                 a few minutes, with or without a GPU
    ./pixiw run train --data notes.txt src            on your own files and folders
    ./pixiw run train --preset gpt2 --minutes 10      124 million parameters, for a GPU
    ./pixiw run train --steps 100 --width 128         any size of your own
    ./pixiw run train --resume                        go on with the newest run
    ./pixiw run train --preset gpt2 --compare 50      eager against compiled
    python -m smforge.train --help                    the same, from a Python of one's own

In a notebook: `from smforge.train import train; train(preset="tiny")`.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smforge import tiers
from smforge.errors import ConfigurationError, ToolchainError, VerificationError
from smforge.options import add_flags, preset_of, resolve, resumed, setting
from smforge.probe import gpu
from smforge.stopping import Stop, Stopped

if TYPE_CHECKING:
    from smforge.data import Baselines, Corpus
    from smforge.decisions import Decisions, Place
    from smforge.engine import Engine
    from smforge.progress import Bar, Metrics

# -------------------------------------------------------------------------------------------------
# Settings: one field a flag (block_size is --block-size)
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """What a run is made of; a checkpoint keeps all of it."""

    # How long.
    steps: int = setting("optimizer steps; 0: as many as --minutes hold", tiny=600, gpt2=0)
    minutes: float = setting("train this long, counted after step 10", tiny=0.0, gpt2=10.0)
    # What a step sees: batch_size x block_size bytes.
    batch_size: int = setting("sequences in a step", tiny=16, gpt2=32)
    block_size: int = setting("bytes in a sequence", tiny=128, gpt2=1024)
    data: tuple[str, ...] = setting("files or folders to learn from (Python's own library)", ())
    seed: int = setting("starts the weights and draws the batches", 1)
    # The model.
    layers: int = setting("transformer blocks", tiny=4, gpt2=12)
    heads: int = setting("attention heads of a block", tiny=4, gpt2=12)
    width: int = setting("size of a token's vector", tiny=192, gpt2=768)
    vocabulary: int = setting("rows of the token table", tiny=256, gpt2=50304)
    # The optimizer.
    lr: float = setting("highest learning rate", tiny=2e-3, gpt2=6e-4)
    warmup: int = setting("steps of rising learning rate", tiny=50, gpt2=100)
    weight_decay: float = setting("decay of the weight matrices", 0.1)
    grad_clip: float = setting("longest gradient", 1.0)
    # What the tier decides, unless it is said here.
    tier: str | None = setting("decide as for this tier; cpu always works (this machine's)", None)
    dtype: str | None = setting("float32, bfloat16 or float16 (the tier's)", None)
    compile: bool | None = setting("torch.compile (the tier's)", None)
    # What is written, and when.
    eval_every: int = setting("steps between two validations", 100)
    save_every: float = setting("seconds between two checkpoints", tiny=30.0, gpt2=120.0)


PRESETS = ("tiny", "gpt2")
GPT2_MEMORY = 7.5 * 2**30  # cards sold as 8 GB report a little less
FINAL_LR = 0.05  # share of the highest learning rate that the cosine ends at
VALIDATION_BYTES = 1 << 15  # seen by a validation on the way; the last one sees four times that
TIMED_FROM = 10  # --minutes: the steps before this one compile and warm up
SAMPLE_PROMPT, SAMPLE_BYTES = b"def ", 500


@dataclass(frozen=True)
class Result:
    """How a run ended; losses in nats per byte, `compile_failure` "" where it worked."""

    run: Path
    steps: int
    loss: float
    val_loss: float
    unigram: float
    bigram: float
    compile_failure: str


# -------------------------------------------------------------------------------------------------
# A run, top to bottom
# -------------------------------------------------------------------------------------------------


def train(
    preset: str | None = None,
    *,
    out: str | Path = "runs",
    resume: bool | str | Path = False,
    compare: int = 0,
    strict: bool = False,
    **settings: Any,
) -> Result | None:
    """Train, and return how it ended; with `compare`, time steps and return None.

    `settings` are the fields of `Settings`. `resume=True` goes on with the newest run in `out`.

    Raises:
        ConfigurationError: a setting, the data, or a folder that cannot be written.
        GPUError: the tier that was asked for, or is installed, cannot run on this machine.
        ToolchainError: a package is missing, or compiling failed under `strict`.
        VerificationError: the loss stopped being a number.
        Stopped: Ctrl-C or SIGTERM; a checkpoint was saved.
    """
    with Stop() as stop:
        import_packages()
        from smforge import checkpoint, data, decisions

        weights, state = {}, {}
        if resume:
            run = checkpoint.find_run("" if resume is True else str(resume), Path(out))
            weights, state = checkpoint.load(run)
            chosen = resumed(Settings, state["settings"], settings, preset)
            place = locate(chosen.tier)
        else:
            place = locate(settings.get("tier"))
            chosen = resolve(preset_of(Settings, preset or default_preset(place)), settings)
        corpus = data.load(chosen.data, chosen.block_size)
        if resume and state["fingerprint"] != corpus.fingerprint:
            raise ConfigurationError(f"the data has changed since {run} was started: give back "
                                     "what it was, or start a new run")  # fmt: skip
        decided = decisions.decide(place, chosen.dtype, chosen.compile, cudnn_version(place))
        if not resume:
            run = checkpoint.new_run(Path(out))
        announce(run, place, decided, corpus)
        with decisions.applied(decided, place.device):
            if compare:
                compare_steps(run, chosen, corpus, place, decided, compare, strict)
                return None
            engine = build(chosen, place, decided)
            if resume:
                engine.restore(weights, state)
            return Job(run, chosen, corpus, engine, stop, state.get("step", 0)).go(strict)


def import_packages() -> None:
    """Import what training needs, or name what is missing."""
    try:
        import matplotlib  # noqa: F401
        import psutil  # noqa: F401
        import rich  # noqa: F401
        import safetensors.torch
        import torch  # noqa: F401
    except ImportError as error:
        raise ToolchainError(
            f"{error.name or error} is missing from {sys.executable}: "
            f"{tiers.command('install')} makes an environment that has it"
        ) from None


def locate(tier: str | None) -> Place:
    """Device and tier of this machine."""
    from smforge import decisions

    return decisions.place(tier, os.environ, gpu.detect())


def default_preset(place: Place) -> str:
    """gpt2 on a GPU that can hold it, else tiny."""
    import torch

    if place.device == "cpu":
        return "tiny"
    memory = torch.cuda.get_device_properties(0).total_memory
    return "gpt2" if memory >= GPT2_MEMORY else "tiny"


def cudnn_version(place: Place) -> int:
    """torch's number for its cuDNN, 0 without one."""
    import torch

    return (torch.backends.cudnn.version() or 0) if place.device == "cuda" else 0


def announce(run: Path, place: Place, decided: Decisions, corpus: Corpus) -> None:
    """Say once what was decided, and why."""
    import torch

    if place.warning:
        print(f"warning   {place.warning}")
    print(f"tier      {place.tier.name}: {place.reason} (torch {torch.__version__})")
    print("\n".join(decided.lines()))
    print(f"data      {corpus.description}")
    print(f"run       {run}", flush=True)


def build(settings: Settings, place: Place, decided: Decisions) -> Engine:
    """The model with its first weights, and what trains it."""
    import torch

    from smforge.engine import Engine
    from smforge.model import GPT, Shape

    torch.manual_seed(settings.seed)
    model = GPT(Shape(settings.layers, settings.heads, settings.width, settings.block_size,
                      settings.vocabulary))  # fmt: skip
    print(f"model     {model.size:,} parameters", flush=True)
    if settings.vocabulary > 256:
        print(f"          bytes use 256 of the vocabulary's {settings.vocabulary:,} rows: "
              "the rest is there for the sake of the speed figures")  # fmt: skip
    return Engine(model, decided, place.device, settings.weight_decay, settings.grad_clip)


def rate(settings: Settings, step: int) -> float:
    """Learning rate of a step (from 0): a linear rise, then a cosine if the end is known."""
    warmup = min(settings.warmup, settings.steps // 2) if settings.steps else settings.warmup
    if step < warmup:
        return settings.lr * (step + 1) / warmup
    if not settings.steps:
        return settings.lr
    done = (step - warmup) / (settings.steps - warmup)
    return settings.lr * (FINAL_LR + (1 - FINAL_LR) * (1 + math.cos(math.pi * done)) / 2)


@dataclass
class Job:
    """A run under way: `done` updates are made."""

    run: Path
    settings: Settings
    corpus: Corpus
    engine: Engine
    stop: Stop
    done: int
    saved_at: float = 0.0

    def go(self, strict: bool) -> Result:
        """Train to the end."""
        from smforge.data import baselines
        from smforge.progress import Bar, Metrics, clock

        began, tables = time.perf_counter(), baselines(self.corpus)
        print(f"to beat   {tables.bigram:.3f} nats per byte, a table of byte pairs "
              f"({tables.unigram:.3f}: of single bytes)", flush=True)  # fmt: skip
        if not self.done:
            self.save()
        with (
            Metrics(self.run / "metrics.jsonl", self.done) as metrics,
            Bar(self.settings.steps, self.done) as bar,
        ):
            self.stop.waits = True
            self.loop(bar, metrics, strict)
            self.stop.waits = False
            result = self.finish(metrics, tables)
        print(f"done      validation {result.val_loss:.3f} nats per byte after {self.done} steps "
              f"in {clock(time.perf_counter() - began)} (byte pairs {tables.bigram:.3f}, single "
              f"bytes {tables.unigram:.3f})\n          {self.run}")  # fmt: skip
        if result.compile_failure:
            print(f"          in eager mode, since torch.compile failed: {result.compile_failure}")
        return result

    def loop(self, bar: Bar, metrics: Metrics, strict: bool) -> None:
        """Step by step. A checkpoint holds weights that the next loss has shown to be good."""
        from smforge import data
        from smforge.progress import Metric, step_memory

        if self.done < self.settings.steps or not self.settings.steps:
            self.engine.fit(*self.batch())
            self.engine.compile(self.run / "compile.log", strict, bar.say)
        seconds: list[float] = []
        while not self.settings.steps or self.done < self.settings.steps:
            started = time.perf_counter()
            loss = self.gradients()
            computed = time.perf_counter()
            if self.stop.signum or computed - self.saved_at >= self.settings.save_every:
                self.save()
            if self.stop.signum:
                bar.say(f"stopped at step {self.done}: {self.resume_command} goes on")
                raise Stopped(self.stop.signum)
            resumed_at = time.perf_counter()
            self.engine.update(rate(self.settings, self.done))
            self.done += 1
            seconds.append(time.perf_counter() - resumed_at + computed - started)
            if not self.settings.steps and len(seconds) == TIMED_FROM:
                self.set_steps(statistics.median(seconds[1:]), bar)
            tokens = self.settings.batch_size * self.settings.block_size
            metric = Metric(self.done, loss, self.validate(), tokens / seconds[-1])
            metrics.add(metric)
            bar.step(metric, step_memory(self.engine.device))
