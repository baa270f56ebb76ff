"""From a URL or an engine to a service. Nothing is connected here (services URL-8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from hookwork.errors import ConfigurationError
from hookwork.service_options import SWITCH, WHOLE_NUMBER, Option, options_of, words
from hookwork.urls import redact_url

if TYPE_CHECKING:
    from hookwork_database.sealing import Cipher
    from hookwork_database.service import DatabaseSessionService
    from hookwork_spanner.connecting import Place

OPTIONS: Mapping[str, Option] = {
    "foreign_appends": words("absorb", "refuse"),
    "cache_sessions": WHOLE_NUMBER,
    "key_variable": Option(str, str, "the name of an environment variable"),
    "create_schema": SWITCH,
    "pool_size": WHOLE_NUMBER,
    "statement_timeout": WHOLE_NUMBER,
}
#: What SQLAlchemy, and so google-adk, writes behind ``spanner+spanner:///``.
_RESOURCE = re.compile(r"projects/([^/]+)/instances/([^/]+)/databases/([^/]+)")
_FORM = "spanner://project/instance/database"


def session_service(url: str, *, settings: Mapping[str, Any] | None = None) -> DatabaseSessionService:
    """The session service of a Spanner URL.

    Args:
        url: ``spanner://project/instance/database``, or as SQLAlchemy writes it; its query holds options.
        settings: options too, from ``[tool.hookwork.spanner]``; those of the URL win.

    Raises:
        ConfigurationError: the URL or an option is wrong.
        ValidationError: an option has no valid value.
    """
    body, _, query = url.partition(":")[2].partition("?")
    options = options_of(query, settings, OPTIONS, extension="spanner", at=f"sessions URL {redact_url(url)!r}")
    place = place_of(url, body)
    variable = options.pop("key_variable", None)
    if variable is not None:
        from hookwork_database.sealing import cipher_of_variable

        options["cipher"] = cipher_of_variable(variable)
    return _service(partial(_engine_of, place), f"Spanner database {'/'.join(place)!r}", owned=True, **options)


def engine_service(
    engine: Any,
    *,
    foreign_appends: Literal["absorb", "refuse"] = "absorb",
    cache_sessions: int = 256,
    create_schema: bool = False,
    pool_size: int = 10,
    statement_timeout: int = 0,
    cipher: Cipher | None = None,
) -> DatabaseSessionService:
    """The session service on an engine of sqlalchemy-spanner, which is used as it is and not closed (services DB-4).

    Args:
        foreign_appends, cache_sessions: as for `hookwork_database.DatabaseSessionService`.
        create_schema: whether absent tables are created at first use.
        pool_size: most calls at once.
        statement_timeout: milliseconds a statement may take; 0 is the client's own limit.
        cipher: seals what events say and what state holds (services BEY-16); the option ``key_variable`` of a URL.

    Raises:
        ConfigurationError: an engine on another database.
        ValidationError: an option has no valid value.
    """
    from hookwork_spanner.layout import DIALECT

    if getattr(getattr(engine, "dialect", None), "name", "") != DIALECT:
        raise ConfigurationError(
            f"hookwork-spanner needs an engine of sqlalchemy-spanner, not {engine!r}; write "
            f"create_engine('{DIALECT}:///projects/…/instances/…/databases/…')"
        )
    return _service(
        lambda: engine,
        f"the engine {engine.url.render_as_string(hide_password=True)!r}",
        owned=False,
        foreign_appends=foreign_appends,
        cache_sessions=cache_sessions,
        create_schema=create_schema,
        pool_size=pool_size,
        statement_timeout=statement_timeout,
        cipher=cipher,
    )


def _engine_of(place: Place) -> Any:
    from hookwork_spanner.connecting import engine_of

    return engine_of(place)


def _service(
    make_engine: Callable[[], Any],
    where: str,
    *,
    owned: bool,
    foreign_appends: Literal["absorb", "refuse"] = "absorb",
    cache_sessions: int = 256,
    create_schema: bool = False,
    pool_size: int = 10,
    statement_timeout: int = 0,
    cipher: Cipher | None = None,
) -> DatabaseSessionService:
    from hookwork.errors import ValidationError
    from hookwork_database.service import DatabaseSessionService
    from hookwork_spanner.store import SpannerStore

    for name, number, least in (("pool_size", pool_size, 1), ("statement_timeout", statement_timeout, 0)):
        if type(number) is not int or number < least:
            raise ValidationError(f"{name} must be a whole number from {least}, not {number!r}", path=name)
    store = SpannerStore(
        make_engine, where, owned=owned, create=create_schema, pool_size=pool_size, statement_timeout=statement_timeout
    )
    return DatabaseSessionService(store, foreign_appends=foreign_appends, cache_sessions=cache_sessions, cipher=cipher)


def place_of(url: str, body: str) -> Place:
    """Project, instance and database of a URL. Raises ConfigurationError."""
    from urllib.parse import unquote

    from hookwork_spanner.connecting import Place

    scheme = url.partition(":")[0].lower()
    if scheme not in ("spanner", "spanner+spanner"):
        raise ConfigurationError(f"{redact_url(url)!r}: the driver of Spanner is its own; write {_FORM}")
    found = _RESOURCE.fullmatch(body.lstrip("/"))
    names = found.groups() if found else tuple(body.removeprefix("//").split("/"))
    if len(names) != 3 or not all(names) or "@" in names[0]:
        raise ConfigurationError(f"{redact_url(url)!r} must name project, instance and database: {_FORM}")
    return Place(*(unquote(name) for name in names))
