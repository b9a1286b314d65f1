"""Results of verify: read, compared, and drawn as a page that is right in light and dark."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from smforge import cli
from smforge.errors import ConfigurationError
from smforge.report.compare import compare
from smforge.report.page import page
from smforge.report.text import cell_mark, table
from smforge.verify import result
from smforge.verify.result import CaseResult, CellResult, Report, load, to_json
from tests.conftest import skip_or_fail

DATA = Path(__file__).with_name("data")


@pytest.fixture
def h200() -> Report:
    """A run on one H200, as it was written there."""
    return load(DATA / "verify-h200.json")


def with_case(report: Report, name: str, /, **changes: object) -> Report:
    cases = [dataclasses.replace(c, **changes) if c.name == name else c for c in report.cases]
    return dataclasses.replace(report, cases=tuple(cases))


def test_a_result_is_read_back_as_it_was_written(tmp_path: Path, h200: Report) -> None:
    (tmp_path / "verify.json").write_text(to_json(h200), "utf-8")
    assert load(tmp_path) == h200


def test_the_recorded_run_fits_the_schema(h200: Report) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schema = json.loads(Path(result.__file__).with_name("verify.schema.json").read_text("utf-8"))
    jsonschema.validate(json.loads(to_json(h200)), schema)
    cell = CellResult("sm90", "gemm-bf16", "triton-3.7", True, "passed")
    matrix = dataclasses.replace(h200, mode="no-gpu", cases=(), cells=(cell,))
    jsonschema.validate(json.loads(to_json(matrix)), schema)


def test_the_schema_names_every_field() -> None:
    schema = json.loads(Path(result.__file__).with_name("verify.schema.json").read_text("utf-8"))
    for cls, part in (
        (Report, schema),
        (CaseResult, schema["$defs"]["case"]),
        (CellResult, schema["$defs"]["cell"]),
    ):
        assert set(part["properties"]) == {field.name for field in dataclasses.fields(cls)}


def test_another_schema_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "verify.json"
    file.write_text('{"schema": 99}', "utf-8")
    with pytest.raises(ConfigurationError, match="schema is 99, this smforge reads 1"):
        load(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not valid JSON"), ("[]", "schema is None"), ('{"schema": 1}', "not a result")],
    ids=["cut-off", "a-list", "empty"],
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "verify.json").write_text(text, "utf-8")
    with pytest.raises(ConfigurationError, match=message):
        load(tmp_path)


def test_equal_machines_do_not_differ(h200: Report) -> None:
    assert compare({"a": h200, "b": h200}) == []


def test_a_slower_machine_is_named(h200: Report) -> None:
    value = next(c.value for c in h200.cases if c.name == "gemm-bf16")
    slow = with_case(h200, "gemm-bf16", value=value * 0.8)
    assert compare({"a": h200, "b": slow}) == ["gemm-bf16: b reaches 80% of a on the same card"]


def test_another_version_and_another_result_are_named(h200: Report) -> None:
    other = with_case(h200, "softmax-bf16", result="failed")
    other = dataclasses.replace(other, versions={**h200.versions, "triton": "3.7.1"})
    assert compare({"a": h200, "b": other}) == [
        "triton: 3.6.0 (a), 3.7.1 (b)",
        "softmax-bf16: passed (a), failed (b)",
    ]


def test_report_ends_with_5_where_machines_differ(
    tmp_path: Path, h200: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    right = tuple(c for c in h200.cases if c.result == "passed")
    alike = dataclasses.replace(h200, cases=right)
    other = with_case(alike, "softmax-bf16", result="failed", value=None)
    for name, report in (("one", alike), ("two", alike), ("bad", other)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "verify.json").write_text(to_json(report), "utf-8")
    assert cli.main(["report", str(tmp_path / "one"), str(tmp_path / "two")]) == 0
    assert cli.main(["report", str(tmp_path / "one"), str(tmp_path / "bad")]) == 5
    assert "softmax-bf16: passed (one), failed (bad)" in capsys.readouterr().out


def test_the_table_ends_in_the_verdict(h200: Report) -> None:
    broken = with_case(h200, "softmax-bf16", result="failed")
    assert "FAILED: " in table(broken).splitlines()[-1]
    assert "softmax-bf16" in table(broken).splitlines()[-1]


def test_a_cell_shows_the_worst_of_its_toolchains() -> None:
    good = CellResult("sm90", "c", "nvrtc-11.8", True, "passed")
    bad = dataclasses.replace(good, tool="nvrtc-12.9", result="failed")
    assert cell_mark([good]) == "ok"
    assert cell_mark([good, bad]) == "FAIL"
    assert cell_mark([dataclasses.replace(bad, promised=False)]) == "limit"


def test_the_page_is_self_contained_and_its_plots_are_well_formed(h200: Report) -> None:
    text = page({"h200": h200}, [])
    assert not re.findall(r"(?:src|href)=\"(?!data:)", text)
    assert "<script" not in text
    drawn = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(drawn) == 3
    timed = [case for case in h200.cases if case.median_ms]
    space = "{http://www.w3.org/2000/svg}"
    roofline = ElementTree.fromstring(drawn[0])
    dots = [e for e in roofline.iter(f"{space}circle") if e.find(f"{space}title") is not None]
    assert len(dots) == len(timed)


def test_names_from_a_result_cannot_break_the_page(h200: Report) -> None:
    hostile = with_case(h200, "softmax-bf16", name="<script>alert(1)</script>")
    assert "<script" not in page({"<b>": hostile}, ["<i>"])


@pytest.fixture
def chromium() -> str:
    """A headless Chromium."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    skip_or_fail("chromium", "no Chromium on PATH")
    raise AssertionError


def pixels(png: Path) -> object:
    image = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed")
    return image.imread(png)[:, :, :3]


@pytest.mark.chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_chromium_draws_the_plots(tmp_path: Path, h200: Report, chromium: str, dark: bool) -> None:
    file = tmp_path / "verify.html"
    file.write_text(page({"h200": h200}, []), "utf-8")
    shot, log = tmp_path / "shot.png", tmp_path / "net.json"
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               "--window-size=1100,2600", f"--user-data-dir={tmp_path / 'profile'}",
               "--enable-logging=stderr", f"--log-net-log={log}", *scheme,
               f"--screenshot={shot}", file.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert shot.is_file(), done.stderr[-500:]
    assert "CONSOLE" not in done.stderr
    assert_no_requests(log)
    image = pixels(shot)
    paper = image[5, 5]
    assert (paper.mean() < 0.3) if dark else (paper.mean() > 0.9)
    colours = ((0.435, 0.69, 0.94), (0.94, 0.627, 0.353)) if dark else (
        (0.145, 0.388, 0.659), (0.69, 0.325, 0.047))  # fmt: skip
    for colour in colours:  # dots and bars of Triton and of CUDA C++
        close = (abs(image - colour).max(axis=2) < 0.02).sum()
        assert close > 1000


def assert_no_requests(log: Path) -> None:
    """Nothing the page itself asked for went to a network."""
    text = log.read_text("utf-8", errors="replace")
    asked = re.findall(r'"url":"(https?://[^"]+)"', text)
    own = [url for url in asked if "google" not in url and "gvt1" not in url]
    assert own == []
