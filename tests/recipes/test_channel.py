"""A channel of small packages: built once, reproducible, indexed, never broken by a failure."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import textwrap
import time
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from smforge import tables
from smforge.channel import archive, build, check, command, index, publish, recipes
from smforge.errors import ConfigurationError, ToolchainError, VerificationError
from tests.conftest import ROOT, skip_or_fail

Make = Callable[..., Path]
EPOCH = 1_700_000_000


@pytest.fixture
def channel(tmp_path: Path) -> Path:
    return tmp_path / "channel"


@pytest.fixture(autouse=True)
def one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))


def only(channel: Path) -> Path:
    (package,) = channel.glob("*/*.conda")
    return package


def test_what_has_not_changed_is_not_built_again(small: Make, channel: Path) -> None:
    (first,) = build.build([small()], channel)
    (second,) = build.build([small()], channel)
    assert (first.kept, second.kept) == (False, True)


def test_a_changed_script_is_built_again_under_a_new_number(small: Make, channel: Path) -> None:
    build.build([small()], channel)
    (built,) = build.build([small("(folder / 'b.txt').write_text('b')\n", number=1)], channel)
    assert not built.kept
    assert [path.name for path in sorted(channel.glob("*/*.conda"))] == [
        "small-1.0-b_0.conda",
        "small-1.0-b_1.conda",
    ]


def test_an_edited_source_takes_the_place_of_what_was_not_published(
    small: Make, channel: Path
) -> None:
    build.build([small()], channel)
    before = only(channel).read_bytes()
    (built,) = build.build([small("(folder / 'a.txt').write_text('other')\n")], channel)
    assert not built.kept
    assert only(channel).read_bytes() != before


def test_a_different_file_in_the_place_of_a_published_one_is_refused(
    small: Make, channel: Path
) -> None:
    build.build([small()], channel)
    publish.to_folder(channel, channel.parent / "public")
    before = only(channel).read_bytes()
    other = small("(folder / 'a.txt').write_text('other')\n")
    with pytest.raises(ConfigurationError, match="raise build_number"):
        build.build([other], channel)
    assert only(channel).read_bytes() == before
    build.build([other], channel, replace=True)
    assert only(channel).read_bytes() != before


def test_two_builds_are_the_same_bytes(small: Make, tmp_path: Path) -> None:
    script = "(folder / 'z').mkdir()\n(folder / 'z/b').write_text('b')\n(folder / 'a').touch()\n"
    for name in ("one", "two"):
        build.build([small(script)], tmp_path / name)
    assert only(tmp_path / "one").read_bytes() == only(tmp_path / "two").read_bytes()


def test_a_package_has_one_time_no_owner_and_no_path_of_this_machine(
    small: Make, channel: Path
) -> None:
    build.build([small()], channel)
    parts = archive.read_parts(only(channel))
    assert next(iter(parts)) == "metadata.json"
    for name in [name for name in parts if name.endswith(".tar.zst")]:
        (channel / "part.tar").write_bytes(parts[name])
        with tarfile.open(channel / "part.tar") as tar:
            members = tar.getmembers()
        assert [m.name for m in members] == sorted(m.name for m in members)
        assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {
            (0, 0, "", "", EPOCH)
        }
        assert str(channel.parent).encode() not in parts[name]
    assert archive.index_record(only(channel))["timestamp"] == EPOCH * 1000


def test_rewriting_keeps_modes_links_and_entry_points(tmp_path: Path) -> None:
    import rattler_build as rb

    files = tmp_path / "files"
    (files / "bin").mkdir(parents=True)
    (files / "bin/tool").write_text("#!/bin/sh\n")
    (files / "bin/tool").chmod(0o755)
    (files / "bin/link").symlink_to("tool")
    made = rb.assemble_package("p", "1", "linux-64", "b_0", tmp_path, files_dir=files, summary="s")
    target = tmp_path / "p-1-b_0.rewritten.conda"
    archive.rewrite(made.path, target, EPOCH, {"key": "value"})
    parts = archive.read_parts(target)
    (tmp_path / "pkg.tar").write_bytes(next(v for k, v in parts.items() if k.startswith("pkg-")))
    with tarfile.open(tmp_path / "pkg.tar") as tar:
        assert tar.getmember("bin/tool").mode == 0o755
        assert tar.getmember("bin/link").linkname == "tool"
    assert json.loads(archive.read_info(target)["info/about.json"])["extra"] == {"key": "value"}
    assert rb.Package.from_file(target).name == "p"


def test_a_script_s_error_is_the_one_line_and_the_channel_stays(small: Make, channel: Path) -> None:
    build.build([small()], channel)
    index.index(channel)
    before = snapshot(channel)
    failing = small("print('noise')\nsys.exit('error: the disk of the index is on fire')\n")
    with pytest.raises(ToolchainError, match="the disk of the index") as got:
        build.build([failing], channel)
    assert "\n" not in str(got.value)
    assert snapshot(channel) == before


def snapshot(channel: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(channel.rglob("*")) if p.is_file()}


def test_a_full_disk_is_one_line_and_leaves_no_part_of_a_package(
    small: Make, tmp_path: Path
) -> None:
    """On a real file system of 1 MB, in a mount namespace of its own."""
    recipe = small("(folder / 'big').write_bytes(os.urandom(3_000_000))\n")
    disk = tmp_path / "disk"
    disk.mkdir()
    inner = f"""
        import os, pathlib
        from smforge.channel import build, recipes
        from smforge.errors import ToolchainError
        channel = pathlib.Path({str(disk)!r})
        if __name__ == "__main__":
            try:
                build.build([pathlib.Path({str(recipe)!r})], channel)
            except ToolchainError as error:
                print(error)
            print(sorted(str(p) for p in channel.rglob("*") if p.is_file()))
        """
    script = tmp_path / "inner.py"
    script.write_text(textwrap.dedent(inner))
    mount = f"mount -t tmpfs -o size=1m none {disk} && exec {sys.executable} {script}"
    command = ["unshare", "-rm", "sh", "-c", mount]
    if subprocess.run([*command[:2], "true"], capture_output=True, check=False).returncode:
        skip_or_fail("namespaces", "unshare cannot make a mount namespace here")
    environ = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    line, files = run.stdout.strip().splitlines()
    assert "small-1.0-b_0.conda" in line
    assert "No space left" in line
    assert files == "[]"


def test_a_truncated_package_is_named(small: Make, channel: Path) -> None:
    build.build([small()], channel)
    package = only(channel)
    data = package.read_bytes()
    package.write_bytes(data[: len(data) // 2])
    for act in (index.index, publish.packages):
        with pytest.raises(ToolchainError, match="is damaged") as got:
            act(channel)
        assert str(package) in str(got.value)
        assert "\n" not in str(got.value)


def test_a_zip_that_is_no_package_is_named(channel: Path) -> None:
    (channel / "win-64").mkdir(parents=True)
    with zipfile.ZipFile(channel / "win-64" / "x-1-0.conda", "w") as out:
        out.writestr("hello", "")
    with pytest.raises(ToolchainError, match="is no conda package"):
        index.index(channel)


def test_the_index_names_every_package_and_its_run_exports(small: Make, channel: Path) -> None:
    import zstandard

    exporting = "requirements:\n  run_exports:\n    weak: [lib >=1]\n"
    build.build([small(extra=exporting)], channel)
    index.index(channel)
    subdir = channel / "win-64"
    records = json.loads((subdir / "repodata.json").read_text())["packages.conda"]
    assert list(records) == ["small-1.0-b_0.conda"]
    assert records["small-1.0-b_0.conda"]["sha256"] == publish.sha256(only(channel))
    packed = (subdir / "run_exports.json.zst").read_bytes()
    exports = json.loads(zstandard.ZstdDecompressor().stream_reader(packed).read())
    assert exports["packages.conda"]["small-1.0-b_0.conda"] == {
        "run_exports": {"weak": ["lib >=1"]}
    }
    assert (subdir / "repodata.json.zst").exists()
    assert (subdir / "repodata_shards.msgpack.zst").exists()


def test_a_channel_as_indexed_passes_the_check(small: Make, channel: Path) -> None:
    build.build([small()], channel)
    index.index(channel)
    assert check.check(channel) == 0  # win-64: nothing of it runs on Linux


def test_a_tampered_package_fails_the_check(small: Make, channel: Path) -> None:
    build.build([small()], channel)
    index.index(channel)
    package = only(channel)
    data = bytearray(package.read_bytes())
    data[-30] ^= 1
    package.write_bytes(data)
    with pytest.raises(VerificationError, match="repodata says"):
        check.check(channel)


def test_a_file_that_is_not_as_the_package_says_fails_the_check(small: Make, channel: Path) -> None:
    build.build([small("(folder / 'a.txt').write_text('a')\n")], channel)
    package = only(channel)
    parts = archive.read_parts(package)
    name = next(name for name in parts if name.startswith("pkg-"))
    import zstandard

    with zipfile.ZipFile(package, "w", zipfile.ZIP_STORED) as out:
        for part, data in parts.items():
            changed = data.replace(b"a\0\0\0", b"b\0\0\0") if part == name else data
            if part.endswith(".zst"):
                changed = zstandard.ZstdCompressor().compress(changed)
            out.writestr(part, changed)
    index.index(channel)
    with pytest.raises(VerificationError, match=r"a\.txt is not as info/paths\.json says"):
        check.check(channel)


def test_a_package_that_was_not_indexed_fails_the_check(small: Make, channel: Path) -> None:
    build.build([small()], channel)
    index.index(channel)
    build.build([small(name="other")], channel)
    with pytest.raises(ConfigurationError, match="channel index"):
        check.check(channel)


def test_publishing_copies_what_is_new_and_indexes_it(small: Make, channel: Path) -> None:
    target = channel.parent / "public"
    build.build([small()], channel)
    assert [path.name for path in publish.to_folder(channel, target)] == ["small-1.0-b_0.conda"]
    assert (target / "win-64" / "repodata.json.zst").exists()
    assert publish.to_folder(channel, target) == []


def test_publishing_never_replaces_a_different_file(small: Make, channel: Path) -> None:
    target = channel.parent / "public"
    build.build([small()], channel)
    publish.to_folder(channel, target)
    before = snapshot(target)
    build.build([small("(folder / 'b').touch()\n")], channel, replace=True)
    build.build([small(name="new")], channel)
    with pytest.raises(ConfigurationError, match="is published and differs"):
        publish.to_folder(channel, target)
    assert snapshot(target) == before


def test_pytorch_kepler_is_never_published(small: Make, channel: Path) -> None:
    build.build([small(name="pytorch-kepler-like")], channel)
    build.build([small()], channel)
    assert [path.name for path in publish.packages(channel)] == ["small-1.0-b_0.conda"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions: Windows has ACLs")
def test_a_folder_that_everyone_can_write_is_refused(small: Make, channel: Path) -> None:
    build.build([small()], channel)
    (channel / "win-64").chmod(0o777)
    with pytest.raises(ConfigurationError, match="chmod o-w"):
        publish.packages(channel)
    (channel / "win-64").chmod(0o755)
    assert not stat.S_IWOTH & (channel / "win-64").stat().st_mode


def test_serving_never_answers_304(small: Make, channel: Path) -> None:
    import threading

    from smforge.channel import serve

    build.build([small()], channel)
    index.index(channel)
    with serve.server(channel) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/win-64/repodata_shards.msgpack.zst"
        later = {"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}
        with urllib.request.urlopen(urllib.request.Request(url, headers=later)) as answer:
            assert answer.status == 200
            assert answer.headers["Last-Modified"] is None
            body = answer.read()
        server.shutdown()
    assert body == (channel / "win-64" / "repodata_shards.msgpack.zst").read_bytes()


def test_a_folder_that_is_not_indexed_is_not_served(tmp_path: Path) -> None:
    from smforge.channel import serve

    with pytest.raises(ConfigurationError, match="channel index"):
        serve.server(tmp_path)


def test_a_port_that_is_taken_is_named(small: Make, channel: Path) -> None:
    from smforge.channel import serve

    build.build([small()], channel)
    index.index(channel)
    with serve.server(channel) as first:
        port = first.server_address[1]
        with pytest.raises(ConfigurationError, match=f"port {port} cannot be used"):
            serve.server(channel, port)


def run_command(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "smforge", "channel", *words]
    environ = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ)


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows the recipe can be built")
def test_building_pytorch_kepler_elsewhere_is_one_line_and_4(tmp_path: Path) -> None:
    run = run_command("build", "pytorch-kepler", "--channel", str(tmp_path))
    assert run.returncode == 4
    assert len(run.stderr.splitlines()) == 1
    assert "built on win-64 only" in run.stderr


def test_an_unknown_recipe_is_one_line_and_2(tmp_path: Path) -> None:
    run = run_command("build", "nope", "--channel", str(tmp_path))
    assert run.returncode == 2
    assert "pytorch-kepler, smforge, triton-windows" in run.stderr


def test_without_names_everything_but_pytorch_kepler_is_chosen() -> None:
    names = [folder.name for folder in build.select(ROOT / "recipes", [])]
    assert names == ["smforge", "triton-windows"]


def test_what_was_built_before_a_failure_is_indexed(
    small: Make, channel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = small(name="a-good"), small("sys.exit('error: no')\n", name="b-bad")
    workspace = good.parent.parent
    monkeypatch.setattr(tables, "workspace", lambda: workspace)
    arguments = argparse.Namespace(
        names=["a-good", "b-bad"],
        channel=channel,
        variants=None,
        compression_level=3,
        replace=False,
    )
    with pytest.raises(ToolchainError, match="b-bad"):
        command.build(arguments)
    assert bad.exists()
    names = {path.name for path in channel.glob("win-64/*.conda")}
    assert set(check.indexed(channel)) == names == {"a-good-1.0-b_0.conda"}


def test_a_recipe_s_preflight_stops_before_anything_is_built(small: Make, channel: Path) -> None:
    recipe = small()
    (recipe / "preflight.py").write_text("raise SystemExit(4)\n")
    with pytest.raises(ToolchainError, match="cannot be built here"):
        build.build([recipe], channel)
    assert not channel.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals: Windows has none to send")
def test_ctrl_c_stops_a_build_and_its_script_at_once(small: Make, channel: Path) -> None:
    """A real SIGINT to the parent alone, while a script's own child sleeps."""
    build.build([small()], channel)
    index.index(channel)
    before = snapshot(channel)
    started = channel.parent / "started"
    nap = "import subprocess\nchild = subprocess.Popen(['sleep', '300'])\n"
    recipe = small(
        nap + f"pathlib.Path({str(started)!r}).write_text(str(child.pid))\nchild.wait()\n"
    )
    inner = f"""
        import pathlib, sys
        from smforge import cli
        from smforge.channel import build, recipes
        if __name__ == "__main__":
            build.select = lambda *_: [pathlib.Path({str(recipe)!r})]
            sys.exit(cli.main(["channel", "build", "--channel", {str(channel)!r}]))
        """
    script = channel.parent / "inner.py"
    script.write_text(textwrap.dedent(inner))
    environ = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        [sys.executable, str(script)], cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for(lambda: started.exists() and started.read_text() != "")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert snapshot(channel) == before
    wait_for(lambda: not alive(int(started.read_text())))


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come about in 30 s")


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_damaged_older_package_does_not_hide_behind_unchanged(small: Make, channel: Path) -> None:
    build.build([small()], channel)
    shutil.copyfile(__file__, only(channel))
    with pytest.raises(ToolchainError, match="is damaged"):
        build.build([small()], channel)


def test_the_number_of_cores_does_not_change_the_bytes() -> None:
    import zstandard

    data = b"".join(b"%d of a package's files " % n for n in range(1_000_000))
    packed = {zstandard.ZstdCompressor(level=1, threads=n).compress(data) for n in (1, 2, 5)}
    assert len(packed) == 1


def test_rattler_build_indexes_nothing(
    small: Make, channel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    heard = build.Log.on_log

    def listen(log: build.Log, event: object) -> None:
        heard(log, event)
        said.extend(log.lines)

    monkeypatch.setattr(build.Log, "on_log", listen)
    channel.mkdir()
    (variant,) = recipes.render(small())
    assert build.run_build(variant, channel).exists()
    assert "Successfully added 0 packages to subdir noarch." in said
    assert "Adding 1 packages to subdir win-64." not in said
