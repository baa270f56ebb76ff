"""`hookwork sessions` without a terminal (servers §7, CLI-5, CLI-6, CLI-7; services URL-3, DB-21)."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.console.session_files import event, event_line, exported, file_of, session, timeless

from hookwork.platform import use_clock
from hookwork_console.sessions import command
from hookwork_database import DatabaseSessionService

Hookwork = Callable[..., Any]
STORE = "sqlite:///chat.db"
MAIN = (sys.executable, "-c", "import sys; from hookwork.cli import main; sys.exit(main())")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and no settings from outside it."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOOKWORK_")]:
        monkeypatch.delenv(name)
    (tmp_path / "hookwork.toml").write_text("")
    return tmp_path


@pytest.fixture
def filled(here: Path) -> Path:
    """``chat.db``: s1 of u1 and s2 of u2 in app weather, s1 with two events."""

    async def fill() -> None:
        times = iter(datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC) for second in range(60))
        store = DatabaseSessionService(STORE)
        with use_clock(lambda: next(times)):
            for user, id in (("u1", "s1"), ("u2", "s2")):
                handle = await store.create_session(
                    app_name="weather", user_id=user, session_id=id, state={"city": "Zürich", "app:unit": "C"}
                )
            handle = await store.get_session(app_name="weather", user_id="u1", session_id="s1")
            start = datetime(2026, 1, 2, 4, tzinfo=UTC)
            for number, text in enumerate(("Hello", "Line one\nline two")):
                stamp = (start + timedelta(seconds=number)).timestamp()
                await store.append_event(handle, event(f"e{number}", text, timestamp=stamp))
        await store.close()

    asyncio.run(fill())
    return here / "chat.db"


def stored(url: str = STORE, app: str = "weather") -> bytes:
    async def read() -> bytes:
        store = DatabaseSessionService(url)
        try:
            return await exported(store, app)
        finally:
            await store.close()

    return asyncio.run(read())


def words(*arguments: str) -> tuple[str, ...]:
    return ("sessions", *arguments, "--sessions", STORE, "--app", "weather")


# --- which store ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["list", "show s1", "export --all", "delete s1 --yes", "import file.jsonl", "erase-user u1 --yes"]
)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "there is no session store"),
        (["--sessions", "memory:"], "sessions in memory end with the process"),
        (["--sessions", "sqlite:///:memory:"], "sessions in memory end with the process"),
    ],
)
def test_without_a_store_it_says_what_to_do(
    name: str, given: list[str], said: str, hookwork: Hookwork, here: Path
) -> None:
    (here / "file.jsonl").write_bytes(file_of(session()).getvalue())
    result = hookwork("sessions", *name.split(), "--app", "weather", *given)
    assert (result.code, result.out) == (1, "")
    assert said in result.err
    assert "--sessions sqlite:///chat.db" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("name", ["list", "show s1", "export --all", "delete s1 --yes", "erase-user u1 --yes"])
def test_a_misspelt_file_is_told_and_not_made(name: str, hookwork: Hookwork, here: Path) -> None:
    result = hookwork("sessions", *name.split(), "--app", "weather", "--sessions", "sqlite:///caht.db?synchronous=full")
    assert result.code == 1
    assert "there is no file 'caht.db'" in result.err
    assert not (here / "caht.db").exists()


def test_without_an_app_it_is_wrong_usage(filled: Path, hookwork: Hookwork) -> None:
    result = hookwork("sessions", "list", "--sessions", STORE)
    assert result.code == 64
    assert "--app NAME" in result.err


def test_cli_5_store_and_app_come_from_the_settings(filled: Path, hookwork: Hookwork, here: Path) -> None:
    (here / "agents.py").write_text(
        "from hookwork.agent import Agent\nfrom hookwork.app import App\n"
        "async def body(ctx):\n    return\n    yield\n"
        "app = App('weather', Agent(name='helper', body=body))\n"
    )
    (here / "hookwork.toml").write_text(f'sessions = "{STORE}"\napp = "agents.py"\n')
    found = hookwork("sessions", "list", "--json").out.splitlines()
    assert [json.loads(line)["id"] for line in found] == ["s2", "s1"]
    assert "no session of app 'other'" in hookwork("sessions", "list", "--app", "other").err


def test_cli_5_the_apps_own_store_wins_over_the_settings(filled: Path, hookwork: Hookwork, here: Path) -> None:
    (here / "agents.py").write_text(
        "from hookwork.agent import Agent\nfrom hookwork.app import App\n"
        "async def body(ctx):\n    return\n    yield\n"
        f"app = App('weather', Agent(name='helper', body=body), sessions={STORE!r})\n"
    )
    (here / "hookwork.toml").write_text('sessions = "sqlite:///other.db"\napp = "agents.py"\n')
    assert "s1" in hookwork("sessions", "list").out
    assert "there is no file 'other.db'" in hookwork("sessions", "list", "--app", "x").err


def test_url_3_a_password_is_never_shown(hookwork: Hookwork) -> None:
    url = "postgresql://me:geheim@127.0.0.1:1/db?connect_timeout=1"
    result = hookwork("sessions", "list", "--app", "weather", "--sessions", url)
    assert result.code == 1
    assert "geheim" not in result.err + result.out
    assert "Traceback" not in result.err


# --- list and show ----------------------------------------------------------------------------------------------------


def test_list_shows_columns(filled: Path, hookwork: Hookwork) -> None:
    result = hookwork(*words("list"))
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "SESSION  USER  UPDATED (UTC)        STATE",
        "s2       u2    2026-01-02 03:04:01  city, app:unit",
        "s1       u1    2026-01-02 04:00:01  city, app:unit",
    ]


def test_list_can_be_of_one_user_or_of_the_last_ones(filled: Path, hookwork: Hookwork) -> None:
    for more in (("--user", "u1"), ("--limit", "1")):
        [line] = hookwork(*words("list", "--json", *more)).out.splitlines()
        assert json.loads(line) == {
            "id": "s1",
            "appName": "weather",
            "userId": "u1",
            "state": {"city": "Zürich", "app:unit": "C"},
            "lastUpdateTime": 1767326401.0,
        }
    nobody = hookwork(*words("list", "--user", "u9"))
    assert (nobody.code, nobody.out) == (0, "")
    assert "holds no session of user 'u9' of app 'weather'" in nobody.err


def test_show_shows_state_and_events(filled: Path, hookwork: Hookwork) -> None:
    result = hookwork(*words("show", "s1"))
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "session  s1",
        "user     u1",
        "app      weather",
        "updated  2026-01-02 04:00:01 UTC",
        "state",
        '  city      "Zürich"',
        '  app:unit  "C"',
        "events",
        "  1  2026-01-02 04:00:00  user  Hello",
        "  2  2026-01-02 04:00:01  user  Line one line two",
    ]
    last = hookwork(*words("show", "s1", "--last", "1")).out.splitlines()
    assert last[7:] == ["events", "  2  2026-01-02 04:00:01  user  Line one line two"]
    assert hookwork(*words("show", "s2")).out.splitlines()[-1] == "no events"


def test_show_json_is_what_export_writes(filled: Path, hookwork: Hookwork) -> None:
    assert hookwork(*words("show", "s1", "--json")).out == hookwork(*words("export", "s1")).out


def test_an_unknown_id_is_told_with_the_nearest(filled: Path, hookwork: Hookwork) -> None:
    for name in ("show", "export", "delete"):
        result = hookwork(*words(name, "s11"))
        assert (result.code, result.out) == (1, "")
        assert "holds no session 's11' of app 'weather' (did you mean 's1'?)" in result.err
        assert "hookwork sessions list --app weather" in result.err
    assert "of user 'u2'" in hookwork(*words("show", "s1", "--user", "u2")).err


def test_an_id_of_two_users_needs_the_user(filled: Path, hookwork: Hookwork, here: Path) -> None:
    (here / "more.jsonl").write_bytes(file_of(session("s1", "u2")).getvalue())
    assert hookwork("sessions", "import", "more.jsonl", "--sessions", STORE).code == 0
    result = hookwork(*words("show", "s1"))
    assert result.code == 64
    assert "session 's1' exists for the users u1, u2; say which with --user" in result.err
    assert "user     u2" in hookwork(*words("show", "s1", "--user", "u2")).out


# --- export -----------------------------------------------------------------------------------------------------------


def test_export_writes_the_lines_and_nothing_else_to_stdout(filled: Path, hookwork: Hookwork) -> None:
    result = hookwork(*words("export", "--all"))
    assert (result.code, result.out.encode()) == (0, stored())
    assert result.err == "2 session(s), 2 event(s)\n"
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line["id"] for line in lines] == ["s1", "e0", "e1", "s2"]
    chosen = hookwork(*words("export", "s2", "s1", "s2")).out.splitlines()
    assert [json.loads(line)["id"] for line in chosen] == ["s2", "s1", "e0", "e1"]
    of_user = hookwork(*words("export", "--all", "--user", "u2")).out.splitlines()
    assert [json.loads(line)["id"] for line in of_user] == ["s2"]


def test_export_to_a_file_replaces_it_when_all_is_written(filled: Path, hookwork: Hookwork, here: Path) -> None:
    (here / "out.jsonl").write_text("old")
    assert hookwork(*words("export", "s1", "missing", "--output", "out.jsonl")).code == 1
    assert (here / "out.jsonl").read_text() == "old"
    result = hookwork(*words("export", "--all", "--output", "out.jsonl"))
    assert (result.code, result.out, result.err) == (0, "", "2 session(s), 2 event(s) in out.jsonl\n")
    assert (here / "out.jsonl").read_bytes() == stored()
    assert (here / "out.jsonl").stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in here.iterdir() if "jsonl" in path.name) == ["out.jsonl"]


def test_export_to_a_folder_that_is_not_there_is_one_line(filled: Path, hookwork: Hookwork) -> None:
    result = hookwork(*words("export", "--all", "--output", "no/out.jsonl"))
    assert result.code == 1
    assert "error: cannot write 'no/out.jsonl': No such file or directory" in result.err


def test_export_to_what_is_no_plain_file_writes_to_it(filled: Path, hookwork: Hookwork, here: Path) -> None:
    os.mkfifo(here / "pipe")
    reading = os.open(here / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert hookwork(*words("export", "--all", "--output", "pipe")).code == 0
        assert os.read(reading, 65536) == stored()
    finally:
        os.close(reading)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_export_to_a_full_disk_is_one_line(filled: Path, hookwork: Hookwork) -> None:
    result = hookwork(*words("export", "--all", "--output", "/dev/full"))
    assert result.code == 1
    assert "error: cannot write '/dev/full': No space left on device" in result.err


@pytest.mark.parametrize("arguments", [(), ("--all", "s1")])
def test_export_takes_ids_or_all(arguments: tuple[str, ...], filled: Path, hookwork: Hookwork) -> None:
    assert hookwork(*words("export", *arguments)).code == 64


def test_db_21_a_broken_session_is_left_out_whole_and_told(filled: Path, hookwork: Hookwork) -> None:
    with sqlite3.connect(filled) as db:
        db.execute("UPDATE events SET event_data = '{' WHERE id = 'e1'")
    db.close()
    result = hookwork(*words("export", "--all"))
    assert result.code == 1
    assert [json.loads(line)["id"] for line in result.out.splitlines()] == ["s2"]
    assert "s1 (user u1): " in result.err
    assert "1 session(s) could not be read and were left out" in result.err


def test_more_sessions_than_a_store_is_opened_for_at_once(hookwork: Hookwork, here: Path) -> None:
    lines = [line for n in range(40) for line in (session(f"s{n:02}"), event_line("e"))]
    (here / "in.jsonl").write_bytes(file_of(*lines).getvalue())
    assert hookwork("sessions", "import", "in.jsonl", "--sessions", STORE).code == 0
    ids = [json.loads(line)["id"] for line in hookwork(*words("export", "--all")).out.splitlines()]
    assert ids[::2] == [f"s{n:02}" for n in range(40)]
    assert ids[1::2] == ["e"] * 40


# --- import -----------------------------------------------------------------------------------------------------------


def test_import_stores_what_export_wrote(filled: Path, hookwork: Hookwork) -> None:
    assert hookwork(*words("export", "--all", "-o", "out.jsonl")).code == 0
    result = hookwork("sessions", "import", "out.jsonl", "--sessions", "sqlite:///copy.db")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == ["imported s1 (user u1): 2 event(s)", "imported s2 (user u2): 0 event(s)"]
    assert timeless(stored("sqlite:///copy.db")) == timeless(stored())


def test_import_of_a_broken_file_stores_nothing(hookwork: Hookwork, here: Path) -> None:
    lines = [session(), event_line("e1"), '{"id": "e2"', session("s2", user=""), event_line("e1", author=5)]
    (here / "in.jsonl").write_bytes(file_of(*lines).getvalue())
    result = hookwork("sessions", "import", "in.jsonl", "--sessions", STORE)
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        "in.jsonl, line 3: Event: not JSON (column 12)",
        "in.jsonl, line 4: userId is empty",
        "in.jsonl, line 5: Event at author: expected text, found a number",
        "error: in.jsonl: 3 problem(s); nothing was stored",
    ]
    assert stored() == b""


def test_import_refuses_what_exists_before_it_stores_anything(filled: Path, hookwork: Hookwork, here: Path) -> None:
    (here / "in.jsonl").write_bytes(file_of(session("new"), session("s1"), event_line("e1")).getvalue())
    before = stored()
    result = hookwork("sessions", "import", "in.jsonl", "--sessions", STORE)
    assert (result.code, result.out, stored()) == (1, "", before)
    assert "session 's1' of user 'u1' in app 'weather' exists already" in result.err
    assert "--on-conflict skip" in result.err
    skipped = hookwork("sessions", "import", "in.jsonl", "--sessions", STORE, "--on-conflict", "skip")
    assert skipped.out.splitlines() == ["imported new (user u1): 0 event(s)", "skipped  s1 (user u1)"]
    (here / "in.jsonl").write_bytes(file_of(session("s1"), event_line("e1")).getvalue())
    renamed = hookwork("sessions", "import", "in.jsonl", "--sessions", STORE, "--on-conflict", "new-id", "--json")
    told = json.loads(renamed.out)
    assert told == {"id": "s1", "appName": "weather", "userId": "u1", "storedAs": told["storedAs"], "events": 1}
    assert told["storedAs"] not in ("s1", None)


def test_import_tells_of_a_session_that_a_killed_import_left(filled: Path, hookwork: Hookwork, here: Path) -> None:
    lines = [session("s1"), *(event_line(id) for id in ("e0", "e1", "e2"))]
    (here / "in.jsonl").write_bytes(file_of(*lines).getvalue())
    result = hookwork("sessions", "import", "in.jsonl", "--sessions", STORE)
    assert "with the first 2 of its 3 events" in result.err
    assert "hookwork sessions delete s1 --app weather --user u1" in result.err


def test_import_takes_another_app_and_user(hookwork: Hookwork, here: Path) -> None:
    (here / "in.jsonl").write_bytes(file_of(session(), event_line("e1")).getvalue())
    result = hookwork("sessions", "import", "in.jsonl", "--sessions", STORE, "--app", "copy", "--user", "me")
    assert result.out == "imported s1 (user me): 1 event(s)\n"
    first, _ = stored(app="copy").splitlines()
    assert (json.loads(first)["appName"], json.loads(first)["userId"]) == ("copy", "me")


def test_import_of_what_chat_saved(hookwork: Hookwork, here: Path, serve: Any, bodies: Any) -> None:
    (here / "said.json").write_text('{"queries": ["hello"], "state": {"city": "Tokyo"}}')
    agent = serve(bodies.says("Hi."))
    saved = hookwork("chat", agent, "--replay", "said.json", "--save-session", "chat.json", "--session", "s1")
    assert saved.code == 0
    imported = hookwork("sessions", "import", "chat.json", "--sessions", STORE)
    assert (imported.code, imported.err) == (0, "")
    document = json.loads((here / "chat.json").read_text())
    events = document.pop("events")
    first, *others = [json.loads(line) for line in stored(app=document["appName"]).splitlines()]
    assert {**first, "lastUpdateTime": 0} == {**document, "lastUpdateTime": 0}
    assert others == events


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_import_of_a_file_that_cannot_be_read_is_one_line(name: str, hookwork: Hookwork) -> None:
    result = hookwork("sessions", "import", name, "--sessions", STORE)
    assert result.code == 1
    assert result.err.startswith(f"error: cannot read {name!r}: ")
    assert len(result.err.splitlines()) == 1


# --- delete -----------------------------------------------------------------------------------------------------------


def test_delete_asks_and_without_a_person_wants_yes(
    filled: Path, hookwork: Hookwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    before = stored()
    result = hookwork(*words("delete", "s1"))
    assert (result.code, stored()) == (64, before)
    assert "--yes" in result.err
    assert hookwork(*words("delete", "s1", "s9", "--yes")).code == 1
    assert stored() == before


def test_ses_10_delete_removes_the_session_and_its_events(filled: Path, hookwork: Hookwork) -> None:
    result = hookwork(*words("delete", "s1", "--yes"))
    assert (result.code, result.out, result.err) == (0, "deleted s1 (user u1)\n", "")
    [line] = stored().splitlines()
    assert json.loads(line)["id"] == "s2"
    assert json.loads(line)["state"] == {"city": "Zürich", "app:unit": "C"}
    machine = hookwork(*words("delete", "s2", "--yes", "--json"))
    assert json.loads(machine.out) == {"id": "s2", "appName": "weather", "userId": "u2"}
    assert stored() == b""


# --- the program ------------------------------------------------------------------------------------------------------


def test_every_command_is_a_process_of_its_own(filled: Path, here: Path) -> None:
    def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*MAIN, "sessions", *arguments], cwd=here, capture_output=True, timeout=60, **more)

    text = run("export", "--all", "--sessions", STORE, "--app", "weather")
    assert text.returncode == 0, text.stderr
    again = run("import", "-", "--sessions", "sqlite:///copy.db", input=text.stdout)
    assert again.returncode == 0, again.stderr
    assert timeless(stored("sqlite:///copy.db")) == timeless(text.stdout)
    assert run().returncode == 64
    assert run("lits").returncode == 64


def test_cli_7_a_closed_pipe_ends_quietly(here: Path, hookwork: Hookwork) -> None:
    lines = [session(), *(event_line(f"e{n}", content={"parts": [{"text": "x" * 1000}]}) for n in range(300))]
    (here / "in.jsonl").write_bytes(file_of(*lines).getvalue())
    assert hookwork("sessions", "import", "in.jsonl", "--sessions", STORE).code == 0
    process = subprocess.Popen(
        [*MAIN, *words("export", "s1")], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    assert process.wait(60) == 0
    process.stderr.close()


def test_gen_5_ctrl_c_leaves_whole_sessions_only(here: Path) -> None:
    lines = [session("first"), event_line("e0"), session("second"), *(event_line(f"e{n}") for n in range(20_000))]
    (here / "in.jsonl").write_bytes(file_of(*lines).getvalue())
    arguments = ("sessions", "import", "in.jsonl", "--sessions", STORE)
    with subprocess.Popen([*MAIN, *arguments], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"imported first (user u1): 1 event(s)\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert err.decode().splitlines() == [
        "1 session(s) are done, 1 are not; import the file again with --on-conflict skip to go on",
        "interrupted",
    ]
    assert [json.loads(line)["id"] for line in stored().splitlines()] == ["first", "e0"]


def test_an_import_goes_on_when_nobody_reads_what_it_tells(here: Path) -> None:
    (here / "in.jsonl").write_bytes(file_of(*(session(f"s{n}") for n in range(5))).getvalue())
    reading, writing = os.pipe()
    os.close(reading)
    arguments = ("sessions", "import", "in.jsonl", "--sessions", STORE)
    finished = subprocess.run([*MAIN, *arguments], cwd=here, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert (finished.returncode, finished.stderr) == (0, b"")
    assert len(stored().splitlines()) == 5


def test_the_group_says_which_commands_it_has(hookwork: Hookwork) -> None:
    assert sorted(command.commands) == ["delete", "erase-user", "export", "import", "list", "show"]
    result = hookwork("sessions")
    assert (result.code, result.err.splitlines()[0]) == (
        64,
        "error: no command is given; give one of delete, erase-user, export, import, list, show",
    )
