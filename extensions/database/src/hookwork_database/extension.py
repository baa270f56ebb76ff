"""Provider hooks of hookwork-database."""

from __future__ import annotations
