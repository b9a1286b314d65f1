"""Locked PyTorch and Triton environments for every NVIDIA GPU generation."""

from __future__ import annotations

__version__ = "0.1.0"
