"""What events say and what state holds is sealed where a cipher is given (services BEY-16)."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from tests.database import test_mariadb, test_postgresql, test_sqlite_conformance
from tests.database.summaries import check_a_cold_summary_reads_its_window
from tests.database.test_layouts import restored
from tests.database.test_mariadb import Databases
from tests.database.test_mariadb import databases as databases
from tests.database.test_postgresql import Schemas
from tests.database.test_postgresql import schemas as schemas

from hookwork.errors import BackendError, ConfigurationError, ValidationError
from hookwork.records.content import Blob, Content, Part
from hookwork.records.event import EventActions, new_event
from hookwork.records.session import Session
from hookwork.resolve import resolve_memory_service, resolve_session_service
from hookwork.services import SessionService
from hookwork.settings import Settings
from hookwork_database import DatabaseSessionService, SealError, cipher_of_keys, memory_service, session_service
from hookwork_database.migration.copying import migrate
from hookwork_database.migration.in_place import KEPT, migrate_in_place
from hookwork_testkit.suites.base import say, texts

OLD, NEW, OTHER = (Fernet.generate_key().decode() for _ in range(3))
KEYS = "HOOKWORK_TEST_KEYS"
KEY = {"app_name": "app", "user_id": "ann", "session_id": "s"}
SECRET = "the secret of the day"
#: Everything in which a secret may hide; keys of state stay plain.
STATE = {"plain key": SECRET, "app:shared": {"deep": [SECRET]}, "user:own": SECRET}


# --- every backend passes the suite ----------------------------------------------------------------------------------


class TestSealedFile(test_sqlite_conformance.TestFile):
    def build(self, path: Path, **options: Any) -> DatabaseSessionService:
        return super().build(path, cipher=MultiFernet([Fernet(NEW), Fernet(OLD)]), **options)


class _ByVariable:
    """The key comes from the environment, as a URL says."""

    @pytest.fixture(autouse=True)
    def _keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(KEYS, f"{NEW}, {OLD}")

    def build(self, url: str) -> DatabaseSessionService:
        return session_service(f"{url}&key_variable={KEYS}")


class TestSealedPostgres(_ByVariable, test_postgresql.TestPostgres):
    max_examples = 3


class TestSealedMariaDb(_ByVariable, test_mariadb.TestMariaDb):
    max_examples = 3


# --- what is in the file ---------------------------------------------------------------------------------------------


def rows(path: Path, sql: str) -> list[Any]:
    with sqlite3.connect(path) as db:
        return db.execute(sql).fetchall()


def write(path: Path, sql: str, *parameters: Any) -> None:
    with sqlite3.connect(path) as db:
        db.execute(sql, parameters)


def service_on(path: Path, *keys: str) -> DatabaseSessionService:
    return DatabaseSessionService(f"sqlite:///{path}", cipher=cipher_of_keys(*keys) if keys else None)


async def filled(service: SessionService) -> Session:
    session = await service.create_session(**KEY, state=STATE)
    await service.append_event(session, say(SECRET, author="user", id="e-1", delta={"later": SECRET, "app:n": 1}))
    parts = [Part(inline_data=Blob(data=SECRET.encode(), mime_type="text/plain"))]
    await service.append_event(session, new_event("inv-1", author="agent", content=Content(parts=parts)))
    return session


async def test_bey_16_nothing_secret_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    service = service_on(path, NEW)
    session = await filled(service)
    await service.close()
    raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for secret in (SECRET.encode(), b"dGhlIHNlY3JldCBvZi", b"agent", b"role"):
        assert secret not in raw
    for shown in (b"e-1", b"inv-1", b"plain key", b"ann"):
        assert shown in raw, "ids and keys of state stay plain"
    (document,) = (json.loads(row[0]) for row in rows(path, "SELECT event_data FROM events WHERE id = 'e-1'"))
    assert set(document) == {"id", "invocation_id", "timestamp", "hookwork_sealed"}
    assert (document["id"], document["timestamp"]) == ("e-1", session.events[0].timestamp)
    again = service_on(path, NEW)
    found = await again.get_session(**KEY)
    assert list(found.events) == list(session.events)
    assert dict(found.state) == {**STATE, "later": SECRET, "app:n": 1}
    await again.close()


async def test_bey_16_another_key_is_an_error_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    service = service_on(path, OLD)
    session = await filled(service)
    await service.close()
    before = path.read_bytes()
    for keys, code in (((OTHER,), "wrong_key"), ((), "no_key")):
        wrong = service_on(path, *keys)
        for attempt in (
            lambda wrong=wrong: wrong.get_session(**KEY),
            lambda wrong=wrong: wrong.list_sessions(app_name="app"),
            lambda wrong=wrong: wrong.create_session(app_name="app", user_id="ann", state={"app:x": 1}),
        ):
            with pytest.raises(SealError) as refusal:
                await attempt()
            assert (refusal.value.code, refusal.value.retryable) == (code, False)
            assert isinstance(refusal.value, BackendError)
            assert SECRET not in str(refusal.value)
            assert OTHER not in str(refusal.value)
            assert (code == "no_key") == (not isinstance(refusal.value.__cause__, InvalidToken))
        await wrong.close()
    assert path.read_bytes() == before
    right = service_on(path, OLD)
    assert texts(await right.get_session(**KEY)) == texts(session)
    await right.close()


async def test_bey_16_keys_rotate(tmp_path: Path) -> None:
    """The first seals, all open; once everything was copied the old one can go."""
    path, copy = tmp_path / "s.db", tmp_path / "copy.db"
    first = service_on(path, OLD)
    await filled(first)
    await first.close()
    both = service_on(path, NEW, OLD)
    session = await both.get_session(**KEY)
    await both.append_event(session, say("new", delta={"plain key": "new"}))
    await both.close()
    for keys in ((OLD,), (NEW,)):
        single = service_on(path, *keys)
        with pytest.raises(SealError):
            await single.get_session(**KEY)
        await single.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOTH", f"{NEW} {OLD}")
        patch.setenv("FRESH", NEW)
        report = await migrate(f"sqlite:///{path}?key_variable=BOTH", f"sqlite:///{copy}?key_variable=FRESH")
    assert (report.sessions, report.events, report.rejected) == (1, 3, [])
    fresh = service_on(copy, NEW)
    found = await fresh.get_session(**KEY)
    assert (texts(found)[0], texts(found)[-1], found.state["plain key"]) == (SECRET, "new", "new")
    assert found.state["app:shared"] == {"deep": [SECRET]}
    await fresh.close()


async def test_bey_16_a_plain_database_opens_and_new_rows_are_sealed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    plain = service_on(path)
    await filled(plain)
    await plain.close()
    sealing = service_on(path, NEW)
    session = await sealing.get_session(**KEY)
    assert (texts(session)[0], session.state["plain key"]) == (SECRET, SECRET)
    await sealing.append_event(session, say("from now on", id="e-3", delta={"later": "sealed", "user:own": "sealed"}))
    await sealing.close()
    documents = dict(rows(path, "SELECT id, event_data FROM events"))
    assert "hookwork_sealed" in documents["e-3"]
    assert SECRET in documents["e-1"]
    ((user,),) = rows(path, "SELECT state FROM user_states")
    assert list(json.loads(user)["own"]) == ["hookwork_sealed"]
    again = service_on(path, NEW)
    found = await again.get_session(**KEY)
    assert (texts(found)[0], texts(found)[-1]) == (SECRET, "from now on")
    assert found.state["user:own"] == "sealed"
    await again.close()


@pytest.mark.parametrize("layout", ["google_adk_v1", "google_adk_sqlite", "adk_go"])
async def test_bey_16_bey_9_a_file_of_any_layout_is_sealed_in_place(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And sealed anew with another key; what the file says stays what it was."""
    path = restored(tmp_path, layout)
    plain = session_service(f"sqlite:///{path}")
    listed = await plain.list_sessions(app_name="golden")
    keys = [{"app_name": one.app_name, "user_id": one.user_id, "session_id": one.id} for one in listed]
    assert keys
    before = [await plain.get_session(**key) for key in keys]
    await plain.close()
    for value in (OLD, f"{NEW} {OLD}"):
        monkeypatch.setenv(KEYS, value)
        report = await migrate_in_place(f"sqlite:///{path}?key_variable={KEYS}")
        assert report.rejected == []
        path.with_name(path.name + KEPT).unlink()
    documents = [row[0] for row in rows(path, "SELECT event_data FROM events")]
    assert documents
    assert all("hookwork_sealed" in document for document in documents)
    sealed = service_on(path, NEW)
    for key, old in zip(keys, before, strict=True):
        found = await sealed.get_session(**key)
        assert (list(found.events), dict(found.state)) == (list(old.events), dict(old.state))
    await sealed.close()


async def test_bey_16_a_token_opens_only_in_its_place(tmp_path: Path) -> None:
    """Who can write the tables cannot put one event, or one value, in the place of another."""
    path = tmp_path / "s.db"
    service = service_on(path, NEW)
    session = await service.create_session(**KEY, state={"role": "user", "wish": "admin"})
    await service.append_event(session, say("yes", id="e-1"))
    await service.append_event(session, say("no", id="e-2"))
    await service.close()
    ((data,),) = rows(path, "SELECT event_data FROM events WHERE id = 'e-1'")
    ((state,),) = rows(path, "SELECT state FROM sessions")
    swapped = json.loads(state)
    swapped["role"] = swapped["wish"]

    async def refused() -> None:
        changed = service_on(path, NEW)
        with pytest.raises(SealError, match="another place"):
            await changed.get_session(**KEY)
        await changed.close()

    write(path, "UPDATE events SET event_data = ? WHERE id = 'e-2'", data)
    await refused()
    write(path, "DELETE FROM events WHERE id = 'e-2'")
    write(path, "UPDATE sessions SET state = ?", json.dumps(swapped))
    await refused()
    write(path, "UPDATE sessions SET state = ?", state.replace("gAAAA", "gAAAB", 1))
    changed = service_on(path, NEW)
    with pytest.raises(SealError, match="does not open"):
        await changed.get_session(**KEY)
    await changed.close()


async def test_bey_16_log_8_a_summary_is_found_without_opening_the_rest(tmp_path: Path) -> None:
    """What queries look for stays visible: that an event is a summary or a rewind, and its time."""
    service, fresh = (service_on(tmp_path / "s.db", NEW) for _ in range(2))
    await check_a_cold_summary_reads_its_window(service, fresh, KEY)
    await fresh.close()
    await service.close()


async def test_bey_16_log_8_on_postgresql(schemas: Schemas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS, NEW)
    url = await schemas.url(key_variable=KEYS)
    service, fresh = session_service(url), session_service(url)
    await check_a_cold_summary_reads_its_window(service, fresh, KEY)
    await fresh.close()
    await service.close()


async def test_bey_16_log_8_on_mariadb(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS, NEW)
    url = await databases.url(key_variable=KEYS)
    service, fresh = session_service(url), session_service(url)
    await check_a_cold_summary_reads_its_window(service, fresh, KEY)
    await fresh.close()
    await service.close()


async def test_bey_16_what_looks_sealed_cannot_be_smuggled_in(tmp_path: Path) -> None:
    """Else a stored value could make a plain session unreadable."""
    plain = service_on(tmp_path / "plain.db")
    session = await plain.create_session(**KEY)
    forged = {"hookwork_sealed": "gAAAA"}
    for delta in ({"k": forged}, {"app:k": forged}, {"user:k": forged}):
        with pytest.raises(ValidationError, match="reserved"):
            await plain.append_event(session, say("x", delta=delta))
    await plain.append_event(session, say("hookwork_sealed", delta={"k": "hookwork_sealed", "deep": [forged]}))
    assert (await plain.get_session(**KEY)).state["deep"] == [forged]
    await plain.close()
    sealing = service_on(tmp_path / "sealed.db", NEW)
    session = await sealing.create_session(**KEY, state={"k": forged})
    await sealing.append_event(session, say("hookwork_sealed"))
    await sealing.close()
    again = service_on(tmp_path / "sealed.db", NEW)
    found = await again.get_session(**KEY)
    assert (found.state["k"], texts(found)) == (forged, ["hookwork_sealed"])
    await again.close()


async def test_bey_16_any_object_that_encrypts_and_decrypts_is_a_cipher(tmp_path: Path) -> None:
    class Reversed:
        """No cipher for the world outside of tests."""

        def encrypt(self, data: bytes) -> bytes:
            return data[::-1].hex().encode()

        def decrypt(self, token: bytes) -> bytes:
            return bytes.fromhex(token.decode())[::-1]

    service = DatabaseSessionService(f"sqlite:///{tmp_path}/s.db", cipher=Reversed())
    await filled(service)
    await service.close()
    again = DatabaseSessionService(f"sqlite:///{tmp_path}/s.db", cipher=Reversed())
    assert texts(await again.get_session(**KEY))[0] == SECRET
    await again.close()


async def test_bey_16_a_layout_of_columns_is_refused(tmp_path: Path) -> None:
    path = restored(tmp_path, "adk_go")
    service = service_on(path, NEW)
    with pytest.raises(ConfigurationError, match="hookwork migrate"):
        await service.get_session(**KEY)
    await service.close()


# --- options ---------------------------------------------------------------------------------------------------------


async def test_bey_16_the_key_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the URL or by the settings; its value stands in no error."""
    monkeypatch.setenv(KEYS, NEW)
    url = f"sqlite:///{tmp_path}/s.db"
    by_url = session_service(f"{url}?key_variable={KEYS}")
    await filled(by_url)
    await by_url.close()
    settings = Settings(tables={"database": {"key_variable": KEYS}})
    by_settings, _ = resolve_session_service(url, settings)
    assert texts(await by_settings.get_session(**KEY))[0] == SECRET
    await by_settings.close()
    for value, told in (("", "holds no key"), ("secret-but-no-key", "no Fernet key"), (f"{NEW},x", "key 2 of 2")):
        monkeypatch.setenv(KEYS, value)
        with pytest.raises(ConfigurationError, match=told) as refusal:
            session_service(f"{url}?key_variable={KEYS}")
        assert KEYS in str(refusal.value)
        assert "secret-but" not in str(refusal.value)
        assert NEW not in str(refusal.value)
    with pytest.raises(ConfigurationError):
        session_service(f"{url}?key_variable=")
    with pytest.raises(ConfigurationError, match="needs a key"):
        cipher_of_keys()


async def test_bey_16_memory_in_sqlite_stays_plain_only_when_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS, NEW)
    url = f"sqlite:///{tmp_path}/m.db"
    settings = Settings(tables={"database": {"key_variable": KEYS}})
    with pytest.raises(ConfigurationError, match="unsealed=true"):
        resolve_memory_service(url, settings)
    found, _ = resolve_memory_service(f"{url}?unsealed=true", settings)
    assert found is not None
    await found.close()
    plain = memory_service(url)
    await plain.close()


def test_bey_16_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.fernet", None)
    with pytest.raises(ConfigurationError, match=r"hookwork-database\[encryption\]"):
        cipher_of_keys(NEW)


def test_bey_16_unused_it_imports_nothing(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import asyncio, sys\nfrom hookwork_database import session_service\n"
        f"s = session_service('sqlite:///{tmp_path.as_posix()}/s.db')\n"
        "asyncio.run(s.create_session(app_name='a', user_id='u'))\n"
        "print([name for name in sys.modules if name.startswith('cryptography')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_bey_16_a_rewound_session_says_without_a_key_that_it_is_sealed(tmp_path: Path) -> None:
    """The marks of a rewind and of a summary, which stay plain, are no reason to call a row broken."""
    url = f"sqlite:///{tmp_path}/s.db"
    sealed = DatabaseSessionService(url, cipher=cipher_of_keys(NEW))
    session = await sealed.create_session(**KEY)
    await sealed.append_event(session, new_event("inv-1", actions=EventActions(rewind_before_invocation_id="inv-0")))
    await sealed.close()
    plain = DatabaseSessionService(url)
    with pytest.raises(SealError) as refusal:
        await plain.get_session(**KEY)
    assert refusal.value.code == "no_key"
    await plain.close()
