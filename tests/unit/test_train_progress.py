"""The bar, its plain lines, and metrics.jsonl."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from smforge import progress
from smforge.progress import Bar, Metric, Metrics


def shown(monkeypatch: pytest.MonkeyPatch, terminal: bool, *environ: str) -> str:
    """What three steps of 1, 10 and 10 seconds show."""
    clock = iter([100.0, 110.0, 120.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    for name in environ:
        monkeypatch.setenv(name, "1")
    text = io.StringIO()
    with Bar(12, console=Console(file=text, force_terminal=terminal, width=120)) as bar:
        if terminal:
            monkeypatch.undo()
        for step in (1, 2, 3):
            bar.step(Metric(step, 2.5, 2.25 if step == 3 else None, 1000.0), 2**30)
    return text.getvalue()


def test_plain_lines_tell_loss_speed_memory_and_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert shown(monkeypatch, False).splitlines() == [
        "step 1/12  loss 2.500  1,000 tokens/s  1.0 GiB",
        "step 2/12  loss 2.500  1,000 tokens/s  1.0 GiB  1:40 left",
        "step 3/12  loss 2.500  validation 2.250  1,000 tokens/s  1.0 GiB  1:30 left",
    ]


def test_a_known_peak_shows_the_model_flops_utilisation() -> None:
    text = io.StringIO()
    with Bar(12, mfu=0.00044, console=Console(file=text, width=120)) as bar:
        bar.step(Metric(1, 2.5, None, 1000.0), 2**30)
    assert "1,000 tokens/s  MFU 44%  1.0 GiB" in text.getvalue()


def test_a_terminal_gets_a_live_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[38" in shown(monkeypatch, True)


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    text = shown(monkeypatch, True, "NO_COLOR")
    assert "\x1b[38" not in text
    assert "step 3/12" in text


def test_what_a_terminal_cannot_show_is_replaced() -> None:
    assert progress.printable("a\x1b[31mé\n", "ascii") == "a.[31m?\n"


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (165, "2:45"), (3725, "1:02:05")])
def test_seconds_read_as_on_a_clock(seconds: float, text: str) -> None:
    assert progress.clock(seconds) == text


def test_metrics_go_on_after_a_step_without_repeating_it(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with Metrics(path, 0) as metrics:
        for step in range(1, 6):
            metrics.add(Metric(step, 1.0, None, 1.0))
    path.write_text(path.read_text() + '{"step": 6, "lo')
    with Metrics(path, 3) as metrics:
        metrics.add(Metric(4, 2.0, None, 1.0))
    assert [(m.step, m.loss) for m in progress.read_metrics(path)] == [
        (1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0),
    ]  # fmt: skip
