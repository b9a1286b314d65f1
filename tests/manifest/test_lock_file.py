"""A damaged lock gives one clear line, a kill leaves the old one, and the exit code is sure."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.manifest.lockspace import CHANNEL, REFERENCE, environ, lock, reference, replace_in, tiny

pytest.importorskip("rattler", reason="py-rattler is not installed: ./pixiw run test has it")

TEXT = (REFERENCE / "pixi.lock").read_text("utf-8")
FIRST = TEXT.index("- conda:", TEXT.index("\npackages:\n"))


posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


def damaged(tmp_path, content: str | bytes):
    workspace = reference(tmp_path)
    raw = content.encode() if isinstance(content, str) else content
    (workspace / "pixi.lock").write_bytes(raw)
    return lock(workspace, "--check")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x80\x81" + TEXT.encode()[:100], "byte 0 is not UTF-8"),
        ("", "it does not begin with `version: 7`"),
        (os.urandom(64).hex(), "it does not begin with `version: 7`"),
        (TEXT.replace("  depends:\n", "  depends: [\n", 1), "while parsing a flow node"),
        (TEXT[: len(TEXT) // 2], "is damaged"),
        (TEXT[:FIRST], "is damaged"),
        (TEXT[:-40], "is damaged"),
        (
            TEXT.replace("platforms:\n", "<<<<<<< HEAD\nplatforms:\n=======\n>>>>>>> theirs\n", 1),
            "line 2 is a merge conflict marker",
        ),
        (TEXT.replace("version: 7", "version: 6", 1), "its version is 6, expected 7"),
        (TEXT.replace("version: 7", "version: 8", 1), "its version is 8, expected 7"),
        (TEXT.replace("\n", "\r\n"), "edited by hand"),
        (TEXT + "# a note\n", "edited by hand"),
        (TEXT.replace("- __cuda=12.8", "-  __cuda=12.8", 1), "line 6 is not as pixi writes it"),
        (TEXT.replace("  sha256: ", "  sha256: zz", 1), "is damaged"),
    ],
    ids=["bytes", "empty", "noise", "yaml", "half", "no-packages", "tail", "merge", "old", "new",
         "crlf", "comment", "blank", "hash"],
)  # fmt: skip
def test_a_damaged_lock_gives_one_clear_line(tmp_path, content, says):
    result = damaged(tmp_path, content)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert says in result.stderr
    assert "git checkout pixi.lock" in result.stderr


def test_a_folder_in_place_of_the_lock_is_one_clear_line(tmp_path):
    workspace = reference(tmp_path)
    (workspace / "pixi.lock").unlink(missing_ok=True)
    (workspace / "pixi.lock").mkdir()
    result = lock(workspace, "--check")
    assert result.returncode == 2
    assert result.stderr.endswith("pixi.lock cannot be read (Is a directory)\n")
    assert result.stderr.count("\n") == 1


def test_a_package_removed_by_hand_is_named(tmp_path):
    from smforge.locks import read

    locked = read.load(REFERENCE / "pixi.lock")
    url = next(url for url in locked.packages if "/filelock-" in url)
    lines = [line for line in TEXT.splitlines(True) if line.strip() != f"- conda: {url}"]
    text = "".join(lines)
    start = TEXT.index(f"\n- conda: {url}\n")
    block = TEXT[start + 1 : TEXT.index("\n- conda:", start + 1) + 1]
    body = block.partition("\n")[2]
    result = damaged(tmp_path, text.replace(body, "", 1))
    assert result.returncode == 2
    assert "requires filelock: not locked" in result.stdout


def test_a_lock_that_lost_its_last_line_is_noticed(tmp_path):
    result = damaged(tmp_path, TEXT[: TEXT.rstrip().rindex("\n") + 1])
    assert result.returncode == 2
    assert "host environment: vc14_runtime" in result.stdout
    assert "requires vcomp14" in result.stdout


def test_a_version_changed_by_hand_is_named(tmp_path):
    text = TEXT.replace("rich-15.0.0-pyhcf101f3_0", "rich-3.0.0-pyhcf101f3_0")
    workspace = reference(tmp_path)
    (workspace / "pixi.lock").write_text(text, "utf-8")
    manifest = (workspace / "pixi.toml").read_text("utf-8").replace('rich = "*"', 'rich = ">=10"')
    (workspace / "pixi.toml").write_text(manifest, "utf-8")
    result = lock(workspace, "--check")
    assert "pixi.toml requires rich >=10: 3.0.0 is locked" in result.stdout


@posix
def test_with_pixi_on_path_it_is_named_and_the_lock_made_all_the_same(tmp_path, monkeypatch):
    pixi = tmp_path / "bin" / "pixi"
    pixi.parent.mkdir()
    pixi.write_text("#!/bin/sh\n", "utf-8")
    pixi.chmod(0o755)
    monkeypatch.setenv("PATH", str(pixi.parent), prepend=os.pathsep)
    result = lock(tiny(tmp_path / "w"), "--channel-dir", CHANNEL)
    assert result.returncode == 0
    assert "`pixi lock` is the usual way" in result.stderr
    assert (tmp_path / "w" / "pixi.lock").exists()


def test_a_missing_lock_names_the_command_that_makes_it(tmp_path):
    result = lock(tiny(tmp_path), "--check")
    assert result.returncode == 2
    assert "run lock" in result.stderr


def test_lock_does_not_overwrite_a_lock_it_cannot_read_but_upgrade_does(tmp_path):
    workspace = tiny(tmp_path)
    (workspace / "pixi.lock").write_text("<<<<<<< HEAD\n", "utf-8")
    refused = lock(workspace, "--channel-dir", CHANNEL)
    assert refused.returncode == 2
    assert (workspace / "pixi.lock").read_text("utf-8") == "<<<<<<< HEAD\n"
    assert lock(workspace, "--channel-dir", CHANNEL, "--upgrade").returncode == 0
    assert lock(workspace, "--check").returncode == 0


@posix
def test_a_kill_while_the_lock_is_written_leaves_the_old_file(tmp_path):
    workspace = tiny(tmp_path)
    assert lock(workspace, "--channel-dir", CHANNEL).returncode == 0
    before = (workspace / "pixi.lock").read_bytes()
    # Dies by SIGKILL between the last byte of the new file and its renaming.
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom smforge import files\n"
        "os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.replace(Path(sys.argv[1]), 'version: 7\\n' * 100000)\n"
    )
    command = [sys.executable, "-c", script, str(workspace / "pixi.lock")]
    killed = subprocess.run(command, env=environ(), check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (workspace / "pixi.lock").read_bytes() == before
    assert lock(workspace, "--check").returncode == 0


@posix
def test_ctrl_c_while_solving_exits_with_130_and_leaves_the_old_lock(tmp_path):
    workspace = tiny(tmp_path)
    assert lock(workspace, "--channel-dir", CHANNEL).returncode == 0
    before = (workspace / "pixi.lock").read_bytes()
    command = [sys.executable, "-m", "smforge", "lock", "--manifest-path", str(workspace),
               "--upgrade"]  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a channel that never answers
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/channel"
        replace_in(workspace / "pixi.toml", '"conda-forge"', f'"{address}"')
        process = subprocess.Popen(command, env=environ(), stderr=subprocess.PIPE, text=True)
        connection, _ = silent.accept()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        connection.close()
    assert (process.returncode, stderr) == (130, "smforge: stopped\n")
    assert (workspace / "pixi.lock").read_bytes() == before


@pytest.mark.slow
def test_thirty_solves_and_thirty_checks_end_with_their_own_exit_code(tmp_path):
    """py-rattler crashes about every second interpreter that exits after a solve."""
    workspaces = [tiny(tmp_path / str(number)) for number in range(30)]

    def both(workspace):
        solved = lock(workspace, "--channel-dir", CHANNEL).returncode
        return solved, lock(workspace, "--check").returncode

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(both, workspaces)) == [(0, 0)] * 30


@pytest.fixture
def channel_server():
    """The committed linux-64 index as a real channel on loopback; yields its address."""
    shown = {f"/conda-forge/{s}/repodata.json.zst": CHANNEL / s / "repodata.json.zst" for s in
             ("linux-64", "noarch")}  # fmt: skip

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            found = shown.get(self.path)
            body = found.read_bytes() if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/conda-forge"
        server.shutdown()


def test_without_a_folder_the_channel_is_asked_over_http(tmp_path, channel_server, monkeypatch):
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "cache"))
    online, offline = tiny(tmp_path / "online"), tiny(tmp_path / "offline")
    for workspace in (online, offline):
        replace_in(workspace / "pixi.toml", '"conda-forge"', f'"{channel_server}"')
    result = lock(online)
    assert result.returncode == 0, result.stderr
    assert lock(offline, "--channel-dir", CHANNEL).returncode == 0
    text = (online / "pixi.lock").read_text("utf-8")
    assert f"{channel_server}/linux-64/python-3.12" in text
    assert text == (offline / "pixi.lock").read_text("utf-8")


def test_a_channel_that_cannot_be_reached_is_a_toolchain_error(tmp_path, monkeypatch):
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "cache"))
    workspace = tiny(tmp_path / "workspace")
    replace_in(workspace / "pixi.toml", '"conda-forge"', '"http://127.0.0.1:9/nothing"')
    result = lock(workspace)
    assert result.returncode == 4
    assert result.stderr.count("\n") == 1
    assert "--channel-dir" in result.stderr
    assert not (workspace / "pixi.lock").exists()
