"""A command line whose mistakes are one line, with the command that shows the options."""

from __future__ import annotations

import argparse
from typing import NoReturn

from smforge.errors import ConfigurationError


class Parser(argparse.ArgumentParser):
    """argparse, without the usage text before each error; sub-commands are of this class too."""

    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(f"{message}; see {self.prog} --help")
