"""Provider hooks of hookwork-workflow."""

from __future__ import annotations
