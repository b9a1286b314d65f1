"""One class per exit code; each message is one line that names the command that mends it."""

from __future__ import annotations


class SmforgeError(Exception):
    """Base of every failure that ends in one line instead of a traceback."""

    exit_code = 1


class ConfigurationError(SmforgeError):
    """A bad option, file or lock."""

    exit_code = 2


class GPUError(SmforgeError):
    """No GPU, driver or installed stack that can do what was asked."""

    exit_code = 3


class ToolchainError(SmforgeError):
    """A compiler, interpreter, package or download is missing or broken."""

    exit_code = 4


class VerificationError(SmforgeError):
    """A result is wrong, a promise of the tier is broken, or machines differ."""

    exit_code = 5
