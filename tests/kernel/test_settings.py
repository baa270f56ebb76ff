"""Settings: files, environment, arguments (tools-plugins EXT-7, design §6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork import Agent, Runner
from hookwork.errors import ConfigurationError
from hookwork.settings import KEYS, LIST_KEYS, NO_SETTINGS, TEXT_KEYS, Settings, use_no_settings

FULL = """
[project]
name = "demo"

[tool.hookwork]
model = "offline"
sessions = "sqlite:///demo.db"
plugins = ["audit", "cache:small", "policy"]
disabled = ["web"]

[tool.hookwork.audit]
file = "audit.jsonl"

[tool.hookwork.small]
ttl = 5
nested = { a = 1 }
"""


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, **environ: str) -> Settings:
    return Settings.load(folder, environ=environ)


def test_ext_7_reads_the_table_of_the_nearest_pyproject(tmp_path: Path) -> None:
    path = write(tmp_path, "pyproject.toml", FULL)
    settings = load(tmp_path / "a" / "b")
    assert settings.model == "offline"
    assert settings.sessions == "sqlite:///demo.db"
    assert settings.plugins == ("audit", "cache:small", "policy")
    assert settings.disabled == ("web",)
    assert settings.table("audit") == {"file": "audit.jsonl"}
    assert settings.table("small") == {"ttl": 5, "nested": {"a": 1}}
    assert settings.table("absent") == {}
    assert settings.source == str(path.resolve())
    assert settings.agent is None


def test_ext_7_the_first_folder_upwards_with_a_config_decides(tmp_path: Path) -> None:
    write(tmp_path, "hookwork.toml", 'model = "outer"\nagent = "outer"\n')
    write(tmp_path / "mid", "pyproject.toml", '[project]\nname = "no-table-here"\n')
    write(tmp_path / "mid" / "in", "hookwork.toml", 'model = "inner"\n')
    inner = load(tmp_path / "mid" / "in")
    assert (inner.model, inner.agent) == ("inner", None)
    assert load(tmp_path / "mid").model == "outer"


def test_ext_7_hookwork_toml_beside_a_pyproject_without_the_table_is_no_conflict(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", '[project]\nname = "hookwork-demo"\n')
    write(tmp_path, "hookwork.toml", 'model = "m"\n')
    assert load(tmp_path).model == "m"


def test_ext_7_both_in_one_folder_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", FULL)
    write(tmp_path, "hookwork.toml", "")
    with pytest.raises(ConfigurationError, match=r"both .*hookwork\.toml and .* of .*pyproject\.toml"):
        load(tmp_path)


def test_ext_7_nothing_found_gives_defaults(tmp_path: Path) -> None:
    assert load(tmp_path) == NO_SETTINGS
    assert all(getattr(NO_SETTINGS, key) in (None, ()) for key in KEYS)
    assert NO_SETTINGS.source == ""


@pytest.mark.parametrize("key", TEXT_KEYS)
def test_ext_7_environment_wins_over_the_file_and_arguments_over_both(key: str, tmp_path: Path) -> None:
    write(tmp_path, "hookwork.toml", f'{key} = "file"\n')
    variable = f"HOOKWORK_{key.upper()}"
    assert getattr(load(tmp_path), key) == "file"
    assert getattr(load(tmp_path, **{variable: "env"}), key) == "env"
    assert getattr(load(tmp_path, **{variable: ""}), key) == "file"
    assert getattr(load(tmp_path, **{variable: "env"}).merged(**{key: "argument"}), key) == "argument"
    assert getattr(load(tmp_path, **{variable: "env"}).merged(**{key: None}), key) == "env"


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("HOOKWORK_SESSION", "HOOKWORK_SESSIONS"),
        ("HOOKWORK_PLUGINGS", "HOOKWORK_PLUGINS"),
        ("HOOKWORK_EXTENSION", "HOOKWORK_EXTENSIONS"),
    ],
)
def test_design_6_a_misspelt_variable_is_told_with_the_nearest_name(
    variable: str, near: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Others may have variables with the prefix (``key_variable`` of a database names one): only a slip is told."""
    assert load(tmp_path, **{variable: "secret", "HOOKWORK_DB_KEYS": "k", "HOOKWORK_STRICT": "1"}) == NO_SETTINGS
    (record,) = caplog.records
    assert variable in record.getMessage()
    assert near in record.getMessage()
    assert "secret" not in record.getMessage()


@pytest.mark.parametrize("key", LIST_KEYS)
def test_ext_7_lists_replace(key: str, tmp_path: Path) -> None:
    write(tmp_path, "hookwork.toml", f'{key} = ["a", "b"]\n')
    assert getattr(load(tmp_path, **{f"HOOKWORK_{key.upper()}": "c, d"}), key) == ("c", "d")
    assert getattr(load(tmp_path).merged(**{key: ["z"]}), key) == ("z",)


def test_ext_7_tables_merge() -> None:
    settings = Settings(tables={"a": {"x": 1, "y": 2}, "b": {"z": 3}})
    merged = settings.merged(tables={"a": {"y": 5}, "c": {"w": 4}})
    assert merged.tables == {"a": {"x": 1, "y": 5}, "b": {"z": 3}, "c": {"w": 4}}
    assert settings.tables == {"a": {"x": 1, "y": 2}, "b": {"z": 3}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('modle = "x"', "unknown key 'modle' (did you mean 'model'?)"),
        ("model = 3", "'model' must be a text, not a number"),
        ("model = true", "'model' must be a text, not a boolean"),
        ("[model]", "'model' must be a text, not a table"),
        ('plugins = "audit"', "'plugins' must be a list of names, not a text"),
        ("plugins = [1]", "'plugins' must be a list of names, not a list with a number in it"),
        ("plugins = [", "is not valid TOML"),
        ('[tool.hookwork]\nmodel = "m"', "belongs in a pyproject.toml"),
    ],
)
def test_ext_7_faults_name_file_key_and_remedy(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, "hookwork.toml", text)
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path)
    assert message in str(caught.value)
    assert str(path.resolve()) in str(caught.value)


def test_ext_7_a_hookwork_table_that_is_none_is_a_fault(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", "[tool]\nhookwork = 3\n")
    with pytest.raises(ConfigurationError, match=r"tool\.hookwork must be a table, not a number"):
        load(tmp_path)


def test_a_pyproject_elsewhere_in_the_tree_that_is_broken_is_named(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", "[tool.hookwork\n")
    with pytest.raises(ConfigurationError, match=r"pyproject\.toml is not valid TOML"):
        load(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "[tool.hookwork]\nmodel = 'm'",
        "[ tool . hookwork ]\nmodel = 'm'",
        "[tool.\"hookwork\"]\nmodel = 'm'",
        "[tool]\nhookwork.model = 'm'",
        "[tool]\n  hookwork = { model = 'm' }",
        "tool.hookwork.model = 'm'",
        "tool = { hookwork = { model = 'm' } }",
        "'tool'.'hookwork' = { model = 'm' }",
    ],
)
def test_every_spelling_of_the_table_is_seen(text: str, tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", text)
    assert load(tmp_path).model == "m"


def test_a_pyproject_that_only_depends_on_hookwork_is_not_parsed(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", 'not TOML\ndependencies = [\n  "hookwork>=0.1",\n]\n')
    assert load(tmp_path) == NO_SETTINGS


def test_a_bom_and_other_languages_are_read(tmp_path: Path) -> None:
    (tmp_path / "hookwork.toml").write_bytes(b"\xef\xbb\xbf" + 'model = "modèle-ü"\n'.encode())
    assert load(tmp_path).model == "modèle-ü"


def test_hookwork_config_names_the_file(tmp_path: Path) -> None:
    write(tmp_path, "hookwork.toml", 'model = "near"\n')
    other = write(tmp_path / "x", "other.toml", 'model = "named"\n')
    assert load(tmp_path, HOOKWORK_CONFIG=str(other)).model == "named"
    assert load(tmp_path, HOOKWORK_CONFIG="none", HOOKWORK_AGENT="a") == Settings(agent="a")
    assert Settings.load(tmp_path, environ={"HOOKWORK_CONFIG": "none"}, config=other).model == "named"
    with pytest.raises(ConfigurationError, match=r"missing\.toml cannot be read"):
        load(tmp_path, HOOKWORK_CONFIG=str(tmp_path / "missing.toml"))
    bare = write(tmp_path / "y", "pyproject.toml", "[project]\n")
    with pytest.raises(ConfigurationError, match=r"has no \[tool\.hookwork\] table"):
        Settings.load(environ={}, config=bare)


def test_ext_7_isolation_reads_only_what_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "hookwork.toml", 'model = "near"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOKWORK_AGENT", "from-env")
    monkeypatch.delenv("HOOKWORK_CONFIG", raising=False)
    assert Settings.load().model == "near"
    with use_no_settings():
        assert Settings.load() == NO_SETTINGS
        assert Settings.load(tmp_path) == Settings(model="near")
    assert Settings.load().agent == "from-env"


def test_nothing_is_cached(tmp_path: Path) -> None:
    path = write(tmp_path, "hookwork.toml", 'model = "one"\n')
    assert load(tmp_path).model == "one"
    path.write_text('model = "two"\n')
    assert load(tmp_path).model == "two"


def test_a_runner_refuses_a_table_that_belongs_to_nothing_installed() -> None:
    async def body(ctx: Any) -> Any:
        return
        yield

    agent = Agent(name="quiet", body=body)
    settings = Settings(tables={"offlin": {}}, source="hookwork.toml")
    with pytest.raises(ConfigurationError, match=r"hookwork.toml: table 'offlin' .*did you mean 'offline'"):
        Runner(agent, sessions="memory:", settings=settings)
    assert Runner(agent, sessions="memory:", settings=Settings(tables={"offline": {}})).plugins == ()


def test_check_tables_names_the_nearest_known_name() -> None:
    settings = Settings(plugins=["cache:small"], tables={"small": {}, "adit": {}}, source="conf.toml")
    with pytest.raises(ConfigurationError, match=r"conf\.toml: table 'adit' .*did you mean 'audit'"):
        settings.check_tables(["audit", "offline"])
    Settings(tables={"audit": {}, "small": {}}, plugins=["cache:small"]).check_tables(["audit"])


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown key 'session' .*did you mean 'sessions'"):
        NO_SETTINGS.merged(session="memory:")
    with pytest.raises(ConfigurationError, match="unknown key 'pluginz'"):
        Settings(pluginz=["a"])


def test_url_3_secrets_do_not_show_in_the_repr() -> None:
    shown = repr(Settings(sessions="postgresql://bob:hunter2@host/db", model="offline"))
    assert "hunter2" not in shown
    assert "bob" not in shown
    assert "'postgresql://***@host/db'" in shown


values: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(TEXT_KEYS, st.none() | st.text(min_size=1)),
    **dict.fromkeys(LIST_KEYS, st.lists(st.text(min_size=1), max_size=3)),
}
some_settings = st.fixed_dictionaries(
    {}, optional={**values, "tables": st.dictionaries(st.text(), st.dictionaries(st.text(), st.integers()), max_size=3)}
).map(lambda given: Settings(**given))


@given(some_settings)
def test_merging_nothing_changes_nothing(settings: Settings) -> None:
    assert settings.merged() == settings
    assert settings.merged(**dict.fromkeys(TEXT_KEYS)) == settings


@given(some_settings, some_settings)
def test_merging_twice_is_merging_once(first: Settings, second: Settings) -> None:
    changes = {key: getattr(second, key) for key in KEYS} | {"tables": second.tables}
    once = first.merged(**changes)
    assert once.merged(**changes) == once
    assert all(getattr(once, key) == getattr(second, key) for key in TEXT_KEYS if getattr(second, key) is not None)
