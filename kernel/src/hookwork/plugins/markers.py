"""The markers by which hook specifications and implementations are known."""

from __future__ import annotations

import pluggy

PROJECT_NAME = "hookwork"

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)
