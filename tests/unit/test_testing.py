"""smforge.testing: how the suite is spread over processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from smforge.testing import PARALLEL

FILE = """\
import pytest
@pytest.mark.parametrize("number", range(8))
def test_a(number): pass
"""


def test_the_tests_of_a_file_run_in_one_process(tmp_path: Path) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed: ./pixiw run test has it")
    for name in ("test_one", "test_two"):
        (tmp_path / f"{name}.py").write_text(FILE)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *PARALLEL, "-n", "2"]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    runs = re.findall(r"^\[(gw\d)\].*PASSED (test_\w+\.py)", done.stdout, re.MULTILINE)
    assert len(runs) == 16
    assert len({process for process, _ in runs}) == 2
    assert len(set(runs)) == 2
