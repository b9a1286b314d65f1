"""`smforge lock` on the workspace that pixi 0.77 locked over the same index: the same lock."""

from __future__ import annotations

import re

import pytest

from tests.manifest.lockspace import CHANNEL, REFERENCE, lock, reference, replace_in

pytest.importorskip("rattler", reason="py-rattler is not installed: ./pixiw run test has it")

DIGITS = re.compile(r"(?<=triton-windows\[)[0-9a-f]{8}(?=\])")


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    workspace = reference(tmp_path_factory.mktemp("reference"))
    (workspace / "pixi.lock").unlink()
    result = lock(workspace, "--channel-dir", CHANNEL)
    assert result.returncode == 0, result.stderr
    return workspace


def blocks(text: str) -> list[str]:
    """The lock's text without the digits of source records, which also decide their order."""
    head, _, packages = DIGITS.sub("", text).partition("\npackages:\n")
    return [head, *sorted(re.split(r"^(?=- conda)", packages, flags=re.MULTILINE))]


def test_it_writes_byte_for_byte_what_pixi_wrote_but_for_the_digits_of_source_records(solved):
    ours = (solved / "pixi.lock").read_text("utf-8")
    pixis = (REFERENCE / "pixi.lock").read_text("utf-8")
    assert blocks(ours) == blocks(pixis)


def test_every_environment_and_platform_holds_exactly_pixis_packages(solved):
    from smforge.locks import read

    ours, pixis = (read.load(folder / "pixi.lock") for folder in (solved, REFERENCE))
    pairs = [(n, p) for n, e in pixis.environments.items() for p in e.packages]
    assert len(pairs) == 52
    for name, platform in pairs:
        chosen, expected = (
            {p.url or f"{p.path} {p.entry['variants']}" for p in lock.find(name, platform) or ()}
            for lock in (ours, pixis)
        )
        assert chosen == expected, (name, platform)


def test_the_lock_that_pixi_wrote_is_up_to_date():
    result = lock(REFERENCE, "--check")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "pixi.lock is up to date: 15 environments, 52 solves\n"


def test_a_second_solve_from_nothing_writes_the_same_bytes(solved, tmp_path):
    again = reference(tmp_path)
    (again / "pixi.lock").unlink()
    assert lock(again, "--channel-dir", CHANNEL).returncode == 0
    assert (again / "pixi.lock").read_bytes() == (solved / "pixi.lock").read_bytes()


def test_a_lock_that_fits_is_left_alone_and_needs_no_channel(tmp_path):
    workspace = reference(tmp_path)
    before = (workspace / "pixi.lock").stat()
    result = lock(workspace, "--channel-dir", tmp_path / "no such folder", "--json")
    after = (workspace / "pixi.lock").stat()
    # The folder is only looked at when something has to be solved.
    assert (result.returncode, result.stderr) == (0, "")
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_platforms_are_found_by_content_whatever_their_names(tmp_path):
    workspace = reference(tmp_path)
    text = (workspace / "pixi.toml").read_text("utf-8")
    (workspace / "pixi.toml").write_text(text.replace("-sm120", "-blackwell"), "utf-8")
    assert lock(workspace, "--check").returncode == 0


def test_a_platform_with_another_driver_is_stale(tmp_path):
    workspace = reference(tmp_path)
    replace_in(
        workspace / "pixi.toml",
        '{ name = "win-64-sm90", platform = "win-64", cuda = { driver = "12.0"',
        '{ name = "win-64-sm90", platform = "win-64", cuda = { driver = "12.4"',
    )
    result = lock(workspace, "--check")
    assert result.returncode == 2
    assert "no locked platform is win-64 with __cuda=12.4, __cuda_arch=9.0" in result.stdout


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('rich = "*"', 'rich = "<15"', "pixi.toml requires rich <15: 15.0.0 is locked"),
        ('rich = "*"', 'rich = "*"\ngit = "*"', "pixi.toml requires git *: not locked"),
        ('rich = "*"\n', "", "rich 15.0.0 is locked, but nothing requires it"),
        ('channels = ["conda-forge"]', 'channels = ["bioconda"]', "pixi.toml has https://conda."),
        ('sm86 = ["sm86"]', "", "environment sm86 is locked, but pixi.toml has none"),
        ('sm86 = ["sm86"]', 'more = ["sm86"]\nsm86 = ["sm86"]', "environment more is not locked"),
        (
            '"cuda-nvcc_win-64" = "*"\ntriton-windows = { path = "recipes/triton-windows" }',
            '"cuda-nvcc_win-64" = "*"',
            "triton-windows comes from recipes/triton-windows, pixi.toml takes it from the channel",
        ),
    ],
    ids=["tighter", "added", "removed", "channel", "no-env", "new-env", "no-source"],
)
def test_check_names_what_changed_in_the_manifest(tmp_path, old, new, line):
    workspace = reference(tmp_path)
    replace_in(workspace / "pixi.toml", old, new)
    before = (workspace / "pixi.lock").read_bytes()
    result = lock(workspace, "--check")
    assert result.returncode == 2
    assert line in result.stdout
    assert result.stderr.count("\n") == 1
    assert "run lock mends it" in result.stderr
    assert (workspace / "pixi.lock").read_bytes() == before


@pytest.mark.parametrize(
    ("file", "old", "new", "line"),
    [
        ("recipe.yaml", "pytorch >=2.12,<2.14a0", "pytorch >=2.12,<2.15a0", "constrains is now"),
        ("recipe.yaml", "vc14_runtime >=14.29", "vc14_runtime >=14.30", "depends is now"),
        ("recipe.yaml", "license: MIT", "license: BSD-3-Clause", "license is now BSD-3-Clause"),
        ("recipe.yaml", "    - pip\n", "    - pip\n    - ninja\n", "requires ninja: not locked"),
        ("variants.yaml", "3.7.1.post27", "3.7.1.post28", "has no variant"),
    ],
    ids=["constrains", "depends", "licence", "host", "variant"],
)
def test_check_names_what_changed_in_a_recipe(tmp_path, file, old, new, line):
    workspace = reference(tmp_path)
    replace_in(workspace / "recipes" / "triton-windows" / file, old, new)
    result = lock(workspace, "--check")
    assert result.returncode == 2
    assert line in result.stdout
    assert "recipes/triton-windows" in result.stdout


def test_without_upgrade_locked_versions_stay_when_something_else_is_solved(tmp_path):
    workspace = reference(tmp_path)
    replace_in(workspace / "pixi.toml", 'rich = "*"', 'rich = "<15"')
    assert lock(workspace, "--channel-dir", CHANNEL).returncode == 0
    replace_in(workspace / "pixi.toml", 'rich = "<15"', 'rich = "*"\ntqdm = "*"')
    result = lock(workspace, "--channel-dir", CHANNEL)
    assert result.returncode == 0, result.stderr
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == [
        "tqdm",
        "wrote pixi.lock",
    ]
    assert "/rich-14." in (workspace / "pixi.lock").read_text("utf-8")


def test_upgrade_with_a_name_moves_that_package(tmp_path):
    workspace = reference(tmp_path)
    replace_in(workspace / "pixi.toml", 'rich = "*"', 'rich = "<15"')
    assert lock(workspace, "--channel-dir", CHANNEL).returncode == 0
    replace_in(workspace / "pixi.toml", 'rich = "<15"', 'rich = "*"')
    result = lock(workspace, "--channel-dir", CHANNEL, "--upgrade", "rich")
    assert result.stdout.startswith("rich: 14.")
    assert blocks((workspace / "pixi.lock").read_text("utf-8")) == blocks(
        (REFERENCE / "pixi.lock").read_text("utf-8")
    )


def test_a_tier_without_a_solution_is_named_and_the_old_lock_stays(tmp_path):
    workspace = reference(tmp_path)
    before = (workspace / "pixi.lock").read_bytes()
    replace_in(
        workspace / "pixi.toml",
        '[target."*-sm86".dependencies]\npython="3.11.*"',
        '[target."*-sm86".dependencies]\npython="3.10.*"',
    )
    result = lock(workspace, "--channel-dir", CHANNEL)
    assert result.returncode == 2
    assert "pytorch" in result.stderr, "rattler's explanation"
    last = result.stderr.splitlines()[-1]
    assert "environment default has no solution on win-64-sm86" in last
    assert "pixi.lock is as it was" in last
    assert (workspace / "pixi.lock").read_bytes() == before
