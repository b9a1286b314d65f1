"""Serve a channel's folder on this machine over http, as a mirror or a web server would."""

from __future__ import annotations

import functools
import http.server
import os
from pathlib import Path
from typing import Any

from smforge import tiers
from smforge.errors import ConfigurationError


class ChannelHandler(http.server.SimpleHTTPRequestHandler):
    """Plain files, always with their content.

    pixi 0.77 fails on a 304 for repodata_shards.msgpack.zst, so no file carries a Last-Modified
    that a client could ask about.
    """

    protocol_version = "HTTP/1.1"
    quiet = True

    def send_header(self, keyword: str, value: str) -> None:
        if keyword != "Last-Modified":
            super().send_header(keyword, value)

    def send_head(self) -> Any:
        del self.headers["If-Modified-Since"]
        del self.headers["If-None-Match"]
        return super().send_head()

    def list_directory(self, path: str | os.PathLike[str]) -> None:  # noqa: ARG002
        self.send_error(404)

    def log_message(self, format: str, *args: Any) -> None:
        if not self.quiet:
            super().log_message(format, *args)


def server(channel: Path, port: int = 0, quiet: bool = True) -> http.server.ThreadingHTTPServer:
    """A server of `channel` on the loopback interface; port 0 takes any free one.

    Raises:
        ConfigurationError: the folder is not indexed, or the port is taken.
    """
    if not any(channel.glob("*/repodata.json")):
        raise ConfigurationError(
            f"{channel} has no repodata.json: run {tiers.command('channel index')}"
        )
    handler = type("Handler", (ChannelHandler,), {"quiet": quiet})
    try:
        return http.server.ThreadingHTTPServer(
            ("127.0.0.1", port), functools.partial(handler, directory=str(channel))
        )
    except OSError as error:
        raise ConfigurationError(f"port {port} cannot be used: {error.strerror}") from None
