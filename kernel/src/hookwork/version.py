"""The version of this distribution."""

from __future__ import annotations

VERSION = "0.1.0"
