"""Provider hooks of hookwork-skills."""

from __future__ import annotations
