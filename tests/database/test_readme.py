"""The README names every option with its default (its examples run in tests/acceptance)."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from hookwork_database import DatabaseSessionService, SqliteMemoryService
from hookwork_database.options import OPTIONS
from hookwork_database.servers.mysql import MySqlStore
from hookwork_database.servers.postgresql import PostgresStore
from hookwork_database.sqlite.connecting import Connector

README = (Path(__file__).parents[2] / "extensions" / "database" / "README.md").read_text(encoding="utf-8")


def test_url_2_every_option_is_described_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", README, re.MULTILINE))
    assert set(rows) == set(OPTIONS)
    for made in (DatabaseSessionService, SqliteMemoryService, PostgresStore, MySqlStore, Connector):
        for name, parameter in inspect.signature(made.__init__).parameters.items():
            if name in rows and parameter.default is not None and name != "create_schema":
                assert str(parameter.default) in rows[name].strip("`"), name
