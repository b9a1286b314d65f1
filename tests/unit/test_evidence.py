"""envs/evidence.toml and the README table that is made of it."""

from __future__ import annotations

import pytest

from smforge import evidence, evidence_tables, tiers_command
from smforge.errors import ConfigurationError
from tests.conftest import ROOT

ROW = """
[[run]]
tier = "sm90"
platform = "linux-64"
check = "train"
how = "gpu"
result = "passed"
date = "2026-11-21"
device = "H200"
"""


def load(tmp_path, text):
    path = tmp_path / "evidence.toml"
    path.write_text(text, "utf-8")
    return evidence.load(path)


def test_a_row_is_read(tmp_path):
    (row,) = load(tmp_path, ROW + "figures = { tokens_per_s = 5e5 }\n")
    assert row.figures == {"tokens_per_s": 500000.0}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"sm90"', '"sm91"', "key 'tier': found 'sm91'"),
        ('"gpu"', '"hope"', "key 'how'"),
        ('"2026-11-21"', '"yesterday"', "expected a date"),
        ('"passed"', '"failed"', "needs a reason"),
        ('device = "H200"', "", "missing key 'device'"),
    ],
)
def test_a_wrong_row_is_named_in_one_line(tmp_path, old, new, message):
    with pytest.raises(ConfigurationError, match=message) as error:
        load(tmp_path, ROW.replace(old, new))
    assert "[[run]] 1" in str(error.value)


def test_readmes_support_table_is_what_the_evidence_says():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert tiers_command.with_table(readme, "README.md") == readme, "run ./pixiw run tiers --readme"


@pytest.mark.parametrize(
    ("how", "case", "said"),
    [
        ("cpu", "interpreter", "1 of 2 kernels right in the interpreter"),
        ("cpu", "torch.compile", "1 of 2 kernels right"),
        ("aot", "compiled without the card", "1 of 2 kernels compiled"),
    ],
)
def test_a_verify_row_says_what_its_kernels_did(tmp_path, how, case, said):
    text = ROW.replace('"train"', '"verify"').replace('"gpu"', f'"{how}"')
    (row,) = load(tmp_path, text + f'case = "{case}"\nfigures = {{ a = 1, b = 0 }}\n')
    assert evidence_tables.summary(row) == said


def test_a_readme_without_markers_is_refused():
    with pytest.raises(ConfigurationError, match="markers"):
        tiers_command.with_table("# smforge\n", "README.md")
