"""Names and URLs to objects (models REG, services URL, tools-plugins EXT-5, EXT-6, EXT-8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.agent import Agent
from hookwork.errors import ConfigurationError, PluginError, UnknownModelError
from hookwork.model import Model, ModelRequest
from hookwork.plugins.discovery import register_model, use_extensions
from hookwork.plugins.entry_points import PLUGINS, EntryPoint
from hookwork.plugins.markers import hookimpl
from hookwork.plugins.plugin import FunctionPlugin, Plugin
from hookwork.records.metadata import ModelResponse
from hookwork.resolve import (
    check_tables,
    resolve_artifact_service,
    resolve_memory_service,
    resolve_model,
    resolve_plugins,
    resolve_session_service,
)
from hookwork.runner import Runner
from hookwork.services import MemoryService
from hookwork.settings import Settings
from hookwork.urls import redact_url, scheme_of


class NamedModel(Model):
    """A model that knows its name and who made it."""

    def __init__(self, name: str, maker: str = "") -> None:
        self.name = name
        self.maker = maker

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        yield ModelResponse()


class Provider:
    """Makes models whose names start with a prefix; ``wrapper`` ones resolve what follows a colon."""

    def __init__(self, name: str, prefix: str) -> None:
        self.name = name
        self.prefix = prefix

    @hookimpl
    def create_model(self, name: str, settings: dict[str, Any]) -> Any:
        if not name.startswith(self.prefix):
            return None
        if name.startswith("fallback:"):
            return resolve_model(name.removeprefix("fallback:"))
        return NamedModel(name, f"{self.name}{settings or ''}")


def made(name: str, settings: Settings | None = None) -> NamedModel:
    """The model of a name, known to be one of ours."""
    found = resolve_model(name, settings)
    assert isinstance(found, NamedModel)
    return found


# --- models ----------------------------------------------------------------------------------------------------------


def test_reg_1_a_model_object_is_given_back_as_it_is() -> None:
    model = NamedModel("m")
    assert resolve_model(model) is model


def test_reg_1_provider_slash_name_asks_that_provider_alone() -> None:
    with use_extensions([Provider("one", ""), Provider("two", "m")]):
        found = made("two/m-1")
        assert (found.name, found.maker) == ("m-1", "two")
        with pytest.raises(UnknownModelError, match="provider 'two' knows no model 'x/y'"):
            resolve_model("two/x/y")


def test_reg_1_a_provider_is_told_that_it_was_addressed() -> None:
    class Vendor:
        @hookimpl
        def create_model(self, name: str, addressed: bool) -> Any:
            return NamedModel(name) if addressed or name.startswith("v-") else None

    with use_extensions([("vendor", Vendor())]):
        assert (made("vendor/any").name, made("v-1").name) == ("any", "v-1")
        with pytest.raises(UnknownModelError):
            resolve_model("any")


def test_reg_1_a_slash_after_anything_else_belongs_to_the_name() -> None:
    with use_extensions([Provider("one", "models/"), ("toolish", object())]):
        assert resolve_model("models/gem").name == "models/gem"
        with pytest.raises(UnknownModelError):
            resolve_model("toolish/x")


def test_reg_1a_registered_patterns_come_before_extensions() -> None:
    with use_extensions([Provider("one", "")]):
        register_model("^special-", lambda name: NamedModel(name, "pattern"))
        assert made("special-1").maker == "pattern"
        assert made("other").maker == "one"
        assert made("one/special-1").maker == "one"


def test_reg_3_the_first_extension_wins_a_bare_name() -> None:
    with use_extensions([Provider("b", "m"), Provider("a", "m")]):
        assert made("m").maker == "b"


def test_reg_5_nothing_is_cached() -> None:
    with use_extensions([Provider("one", "")]):
        assert resolve_model("m") is not resolve_model("m")


def test_ext_4_wrappers_see_the_settings_of_the_outer_resolution() -> None:
    settings = Settings(tables={"one": {"k": 1}})
    with use_extensions([Provider("wrap", "fallback:"), Provider("one", "m")]):
        assert made("fallback:m", settings).maker == "one{'k': 1}"


def test_ext_3_disabled_extensions_make_no_models() -> None:
    with use_extensions([Provider("one", ""), Provider("two", "")]):
        assert made("m", Settings(disabled=["one"])).maker == "two"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("gemini-3-flash", "pip install hookwork-gemini"),
        ("models/gemini-3-flash", "pip install hookwork-gemini"),
        ("gpt-5.2", "pip install hookwork-openai"),
        ("o3", "pip install hookwork-openai"),
        ("o3-mini", "pip install hookwork-openai"),
        ("apigee/gemini-3", "pip install hookwork-apigee"),
        ("local/gemma", "pip install hookwork-local"),
        ("offline", "pip install hookwork-offline"),
        ("needle", "pip install hookwork-needle"),
        ("one:m", "the form is one/m"),
        ("openai:gpt-5", "the form is openai/gpt-5"),
        ("oen", "did you mean 'one'?"),
    ],
)
def test_reg_9_unknown_names_list_providers_and_the_remedy(name: str, remedy: str) -> None:
    with use_extensions([Provider("one", "never")]), pytest.raises(UnknownModelError) as caught:
        resolve_model(name)
    text = str(caught.value)
    assert repr(name) in text
    assert "installed providers: one" in text
    assert remedy in text
    assert isinstance(caught.value, ConfigurationError)
    assert isinstance(caught.value, LookupError)


def test_reg_9_an_extension_that_failed_to_load_is_named_with_its_reason() -> None:
    class Broken:
        @hookimpl
        def create_modle(self, name: str) -> None: ...

    with use_extensions([("mine", Broken())]), pytest.raises(UnknownModelError) as caught:
        resolve_model("my-model")
    assert "extension 'mine' failed to load: 'create_modle' is no provider hook" in str(caught.value)


def test_ext_5_what_is_switched_off_is_said() -> None:
    off = Settings(disabled=["offline", "inmemory"])
    with pytest.raises(UnknownModelError, match=r"'offline' \(hookwork-offline\) would, but it is switched off"):
        resolve_model("offline", off)
    with pytest.raises(ConfigurationError, match=r"'inmemory' \(hookwork-inmemory\) would, but it is switched off"):
        resolve_session_service("memory:", off)


@pytest.mark.parametrize("value", ["", "  ", 3, None])
def test_a_model_must_be_a_name_or_a_model(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="a model is a Model or a name"):
        resolve_model(value)


def test_a_provider_that_gives_no_model_is_named() -> None:
    class Wrong:
        @hookimpl
        def create_model(self) -> Any:
            return "text"

    with use_extensions([Wrong()]), pytest.raises(ConfigurationError, match="which is no hookwork Model"):
        resolve_model("m")


# --- services --------------------------------------------------------------------------------------------------------


class Notes(MemoryService):
    """The smallest memory service there is."""

    def __init__(self, url: str = "") -> None:
        self.url = url

    async def add_session_to_memory(self, session: Any) -> None: ...

    async def search_memory(self, **request: Any) -> Any: ...


Notes.__abstractmethods__ = frozenset()


class NotesProvider:
    @hookimpl
    def create_memory_service(self, url: str, settings: dict[str, Any]) -> Any:
        return Notes(url) if url.startswith("notes:") else None


def test_url_9_a_service_from_a_url_is_owned_and_an_object_is_not() -> None:
    with use_extensions([NotesProvider()]):
        made, owned = resolve_memory_service("notes://here")
        assert isinstance(made, Notes)
        assert owned is True
        given, owned = resolve_memory_service(made)
        assert given is made
        assert owned is False
        assert resolve_memory_service("notes://here")[0] is not made


def test_url_1_the_scheme_is_lower_cased_and_the_rest_untouched() -> None:
    with use_extensions([NotesProvider()]):
        made, _ = resolve_memory_service("NOTES://Here/A%20b")
    assert isinstance(made, Notes)
    assert made.url == "notes://Here/A%20b"


def test_core_3_unset_services_come_from_the_settings_or_are_none() -> None:
    with use_extensions([NotesProvider()]):
        assert resolve_memory_service(None) == (None, False)
        assert resolve_artifact_service(None) == (None, False)
        made, owned = resolve_memory_service(None, Settings(memory="notes:set"))
        assert isinstance(made, Notes)
        assert (made.url, owned) == ("notes:set", True)


def test_url_1_unset_sessions_are_in_memory() -> None:
    with use_extensions([]), pytest.raises(ConfigurationError) as caught:
        resolve_session_service(None)
    assert "sessions URL 'memory:'" in str(caught.value)
    assert "pip install hookwork-inmemory" in str(caught.value)


@pytest.mark.parametrize(
    ("resolve", "url", "texts"),
    [
        (resolve_session_service, "sessions.db", ["has no scheme", "'sqlite:///sessions.db'"]),
        (resolve_artifact_service, r"C:\data", ["starts with a drive letter", "'file:///folder'"]),
        (resolve_session_service, "spanner://p/i/d", ["scheme 'spanner'", "pip install hookwork-spanner"]),
        (resolve_session_service, "sqlite+aiosqlite:///x.db", ["pip install hookwork-database"]),
        (resolve_artifact_service, "sqlite:///x.db", ["'sqlite' exists for sessions and memory only"]),
        (resolve_session_service, "gs://bucket", ["'gs' exists for artifacts only"]),
        (resolve_memory_service, "sqllite:///x", ["did you mean 'sqlite'?"]),
        (resolve_memory_service, "vertexai://p/l/e", ["extensions asked: NotesProvider"]),
    ],
)
def test_url_8_ext_6_errors_name_scheme_kind_and_remedy(resolve: Any, url: str, texts: list[str]) -> None:
    with use_extensions([NotesProvider()]), pytest.raises(ConfigurationError) as caught:
        resolve(url)
    for text in texts:
        assert text in str(caught.value)


def test_url_3_ext_6_user_info_is_in_no_text() -> None:
    with use_extensions([]), pytest.raises(ConfigurationError) as caught:
        resolve_session_service("postgresql://bob:hunter2@host:5432/db?password=hunter2")
    assert "hunter2" not in str(caught.value)
    assert "bob" not in str(caught.value)
    assert "postgresql://***@host:5432/db?password=***" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h/db", "postgresql://***@h/db"),
        ("postgresql://u:p@ss@h/db", "postgresql://***@h/db"),
        ("postgresql://u:p/w@h/db", "postgresql://***@h/db"),
        ("postgresql://u@h/db", "postgresql://***@h/db"),
        ("mysql://h/db?ssl_key=a&x=1", "mysql://h/db?ssl_key=***&x=1"),
        ("u:p@h/db", "***@h/db"),
        ("file:///home/a@b/c", "file:///home/a@b/c"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("memory:", "memory:"),
        ("memory:?token=t&max_sessions=2", "memory:?token=***&max_sessions=2"),
        ("foo://h/x?X-Goog-Signature=s&sig=t&design=1", "foo://h/x?X-Goog-Signature=***&sig=***&design=1"),
        ("foo://h/x;pwd=p?a=1&b=2", "foo://h/x;pwd=***&b=2"),
        ("foo://h/x?a=1;sas=p", "foo://h/x?a=1;sas=***"),
        ("foo://h/x?a=1;sharedAccessSig=p", "foo://h/x?a=1;sharedAccessSig=***"),
        ("foo://h/x?p%61sswd=p", "foo://h/x?p%61sswd=***"),
        ("foo://h/x?proxy=http%3A%2F%2Fu:p%40h&a=1", "foo://h/x?proxy=***&a=1"),
        ("foo://h/x?a=1#token", "foo://h/x?a=1#***"),
        ("foo://u:a b@h/x", "foo://***@h/x"),
        ("foo://u:a?b@h/x", "foo://***"),
        ("foo://h:1/x?password=a@b", "foo://***"),
        ("memory:?token=a@b", "***"),
    ],
)
def test_url_3_redaction(url: str, shown: str) -> None:
    assert redact_url(url) == shown


SECRET_NAMES = (
    *("password", "db_password", "passwd", "pwd", "PWD", "passphrase", "token", "access_token", "client_secret", "key"),
    *("api_key", "apiKey", "sig", "signature", "X-Amz-Signature", "x-goog-signature", "Authorization", "authorisation"),
    *("credential", "credentials", "sas", "sasToken", "pass", "p%61ssword", "%73ig"),
)
MARK = "s3cr3tVALUE"
#: A secret as somebody types it, not escaped. Where an & is, a further option would begin.
unescaped = st.text(st.characters(codec="utf-8", exclude_characters="&"), max_size=6)
plain = st.sampled_from(["", "a=1", "b", "c=x y", "application_name=z"])


@given(
    base=st.sampled_from(
        ["foo://h/x", "foo://h:1/x", "foo://h", "memory:", "foo:/x", "foo://bob@h/x", "foo://u:p@h/x"]
    ),
    before=plain,
    mark=st.sampled_from("?;"),
    name=st.sampled_from(SECRET_NAMES),
    around=st.tuples(unescaped, unescaped),
    after=plain,
)
def test_url_3_no_secret_option_survives(
    base: str, before: str, mark: str, name: str, around: tuple[str, str], after: str
) -> None:
    option = f"{name}={around[0]}{MARK}{around[1]}"
    for url in (
        f"{base}{mark}{option}&{after}",
        f"{base}?{before}&{option}&{after}",
        f"{base}?{before};{option}",
        f"{base};{option}?{before}",
    ):
        assert MARK not in redact_url(url), url


@given(
    scheme=st.sampled_from(["foo://", "foo:", "//", ""]),
    user=st.sampled_from(["bob", "", "b.ob", "b%40b"]),
    around=st.tuples(*[st.text(st.characters(codec="utf-8"), max_size=6)] * 2),
    rest=st.sampled_from(["h", "h:5432/db", "/x?a=1", "h/x?email=a@b", "h#f"]),
)
def test_url_3_no_password_of_a_user_survives(scheme: str, user: str, around: tuple[str, str], rest: str) -> None:
    assert MARK not in redact_url(f"{scheme}{user}:{around[0]}{MARK}{around[1]}@{rest}")


@given(st.text(max_size=12))
def test_url_3_no_fragment_survives(text: str) -> None:
    assert MARK not in redact_url(f"foo://h/x?a=1#{text}{MARK}")


def test_url_1_scheme() -> None:
    assert scheme_of("PostgreSQL+AsyncPG://h/d", "sessions") == "postgresql+asyncpg"
    assert scheme_of("memory:", "sessions") == "memory"


def test_a_wrong_object_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="memory takes a URL or a MemoryService, not object"):
        resolve_memory_service(object())  # type: ignore[arg-type]


# --- plugins ---------------------------------------------------------------------------------------------------------


class Limit(Plugin):
    """A plugin with options."""

    name = "limit"

    def __init__(self, *, most: int = 1) -> None:
        self.most = most


class Slotted:
    """A plugin whose name cannot be changed."""

    __slots__ = ()
    name = "slotted"


READY = FunctionPlugin("ready")


@contextmanager
def named_plugins() -> Iterator[None]:
    here = {"limit": "Limit", "ready": "READY", "slotted": "Slotted", "nothing": "make_nothing"}
    points = {
        name: EntryPoint(name, PLUGINS, "fake_named_plugins", attribute, "fake-dist", "1.0")
        for name, attribute in here.items()
    }
    with use_extensions([], plugins=points, agents={}):
        yield


def make_nothing() -> None:
    return None


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import SimpleNamespace

    module: Any = SimpleNamespace(Limit=Limit, READY=READY, Slotted=Slotted, make_nothing=make_nothing)
    monkeypatch.setitem(sys.modules, "fake_named_plugins", module)


def test_ext_8_names_are_built_from_their_tables_in_list_order() -> None:
    mine = Limit(most=9)
    with named_plugins():
        first, second, third = resolve_plugins(["limit", mine, "ready"], Settings(tables={"limit": {"most": 3}}))
    assert isinstance(first, Limit)
    assert first.most == 3
    assert second is mine
    assert third is READY


def test_ext_8_an_alias_uses_one_class_twice_with_two_tables() -> None:
    settings = Settings(tables={"limit": {"most": 3}, "strict": {"most": 0}})
    with named_plugins():
        first, second = resolve_plugins(["limit", "limit:strict"], settings)
    assert (first.name, first.most) == ("limit", 3)
    assert (second.name, second.most) == ("strict", 0)


def test_pgy_16_disabled_plugins_are_left_out() -> None:
    with named_plugins():
        assert resolve_plugins(["limit", " limit", "ready"], Settings(disabled=["limit"])) == [READY]


@pytest.mark.parametrize(
    ("entries", "tables", "text"),
    [
        (["limti"], {}, "no installed plugin is named 'limti' (did you mean 'limit'?); known plugins: limit, nothing,"),
        (["audit"], {}, "pip install hookwork-audit"),
        (["limit", "ready", "limit"], {}, "plugin 'limit' is listed twice"),
        (["limit", " limit"], {}, "plugin 'limit' is listed twice"),
        (["limit:a", "ready:a"], {}, "plugin 'a' is listed twice"),
        (
            ["limit"],
            {"limit": {"mots": 3}},
            "settings: table 'limit', options of plugin 'limit' (fake-dist): unknown key 'mots' (did you mean "
            "'most'?); known keys: most",
        ),
        (["ready"], {"ready": {"a": 3}}, "is an object and takes no options (keys: a)"),
        (["slotted:x"], {}, "plugin 'slotted' cannot be used as 'x'"),
        (["nothing"], {}, "gave None instead of a plugin"),
    ],
)
def test_ext_8_faults(entries: list[str], tables: dict[str, Any], text: str) -> None:
    with named_plugins(), pytest.raises(PluginError) as caught:
        resolve_plugins(entries, Settings(tables=tables))
    assert text in str(caught.value)


# --- what the settings say about nothing that there is ----------------------------------------------------------------


def test_ext_7_a_disabled_name_that_nothing_has_is_refused() -> None:
    with named_plugins(), pytest.raises(ConfigurationError) as caught:
        check_tables(Settings(disabled=["limit", "redy"], source="hookwork.toml"))
    assert str(caught.value) == (
        "hookwork.toml: 'disabled' names 'redy', and no extension or plugin is named so (did you mean 'ready'?); "
        "installed: limit, nothing, ready, slotted"
    )


def test_ext_7_what_is_known_but_not_installed_may_be_disabled() -> None:
    with named_plugins():
        settings = Settings(disabled=["ready", "gemini", "retry_and_reflect"])
        check_tables(settings)
    assert settings.disabled == ("ready", "gemini", "retry_and_reflect")


async def test_ext_7_a_runner_refuses_it() -> None:
    async def silent(ctx: Any) -> Any:
        return
        yield

    with pytest.raises(ConfigurationError, match=r"'ofline'.*did you mean 'offline'"):
        Runner(Agent(name="a", body=silent), settings=Settings(disabled=["ofline"]))
