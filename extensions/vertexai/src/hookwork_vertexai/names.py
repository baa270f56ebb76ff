"""Resource names of Agent Engine, and where a location is served (services VTX-1, VTX-2)."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from hookwork.errors import ValidationError
from hookwork.records.text import clean

#: The service as it is reached without a location of its own.
GLOBAL_URL = "https://aiplatform.googleapis.com"
#: Version of the API.
VERSION = "v1beta1"
#: What a session id may be (services VTX-3): at most 63 lower-case letters, digits and dashes.
SESSION_ID = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"

_PROJECT = re.compile(r"[A-Za-z0-9_.:-]+", re.ASCII)
# The location becomes a part of the host that gets our token: nothing but its own letters may be in it.
_LOCATION = re.compile(r"[a-z0-9-]+", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_ENGINE = re.compile(r"projects/([A-Za-z0-9_-]+)/locations/([A-Za-z0-9_-]+)/reasoningEngines/([0-9]+)", re.ASCII)
_SESSION = re.compile(SESSION_ID, re.ASCII)
_SESSION_NAME = re.compile(r"(?:projects/[^/]+/locations/[^/]+/)?reasoningEngines/([0-9]+)/sessions/([^/]+)", re.ASCII)


class Place(NamedTuple):
    """Where the resources are: a project and a location, or neither (express mode, where the API key decides)."""

    project: str
    location: str

    @property
    def prefix(self) -> str:
        """What names of resources begin with: ``projects/p/locations/l/``, or nothing."""
        return f"projects/{self.project}/locations/{self.location}/" if self.project else ""

    @property
    def url(self) -> str:
        """Scheme and host that serve it (TRAP-14: one rule for sessions and memory)."""
        return GLOBAL_URL if self.location in ("", "global") else f"https://{self.location}-aiplatform.googleapis.com"


def check_texts(**texts: Any) -> None:
    """Raise ValidationError unless each can be an id: text that is not blank and that JSON can hold."""
    for name, value in texts.items():
        if not isinstance(value, str) or not value.strip():
            raise ValidationError(f"{name} must be non-empty text", path=name)
        if clean(value) is not value:
            raise ValidationError(f"{name} holds NUL or a lone surrogate, which cannot be sent", path=name)


def checked_place(project: Any, location: Any, *, express: bool = False) -> Place:
    """The place of a service.

    Args:
        express: neither project nor location is given; an API key stands for both.

    Raises:
        ValidationError: one is missing or can be no part of a name; in express mode: one is given.
    """
    if express:
        if project or location:
            raise ValidationError("an API key (express mode) goes without project and location; give one or the other")
        return Place("", "")
    if not isinstance(project, str) or not _PROJECT.fullmatch(project):
        raise ValidationError(f"project {project!r} must be the id or number of a Google Cloud project", path="project")
    if not isinstance(location, str) or not _LOCATION.fullmatch(location):
        raise ValidationError(
            f"location {location!r} must be one like 'us-central1', or 'global'",
            path="location",
        )
    return Place(project, location)


def checked_engine(engine: Any) -> str:
    """The number of an Agent Engine instance. Raises ValidationError."""
    if not isinstance(engine, str) or not _DIGITS.fullmatch(engine):
        raise ValidationError(f"engine {engine!r} must be the number of an Agent Engine instance", path="engine")
    return engine


def engine_of(app_name: str, place: Place, engine: str | None) -> str:
    """The resource name of the engine that keeps the sessions of an app (VTX-2).

    Args:
        engine: the configured one; it serves every app.

    Raises:
        ValidationError: the app's name is neither an engine's number nor its resource name, or names another place.
    """
    number = engine
    if number is None:
        if _DIGITS.fullmatch(app_name):
            number = app_name
        else:
            match = _ENGINE.fullmatch(app_name)
            if match is None:
                raise ValidationError(
                    f"app {app_name!r} names no Agent Engine instance; configure the service with engine=, or name the "
                    "app like the engine: its number or projects/…/locations/…/reasoningEngines/number",
                    path="app_name",
                )
            project, location, number = match.groups()
            if place.project and (project, location) != place:
                raise ValidationError(
                    f"app {app_name!r} is in another project or location than the service, which is configured for "
                    f"{place.prefix}",
                    path="app_name",
                )
    return f"{place.prefix}reasoningEngines/{number}"


def short_session_id(session_id: str, engine: str) -> str:
    """A session id without blanks around it; of a full resource name its last segment (services BEY-5).

    Raises:
        ValidationError: a resource name of another engine.
    """
    session_id = session_id.strip()
    match = _SESSION_NAME.fullmatch(session_id)
    if match is None:
        return session_id
    if match[1] != engine.rpartition("/")[2]:
        raise ValidationError(f"session {session_id!r} belongs to another engine than {engine}", path="session_id")
    return match[2]


def is_session_id(session_id: str) -> bool:
    """Whether Agent Engine can hold a session of that id."""
    return _SESSION.fullmatch(session_id) is not None


def last_segment(name: Any) -> str:
    """The id at the end of a resource name; ``""`` for none. The project in front may be a number (FAKE-1)."""
    return name.rpartition("/")[2] if isinstance(name, str) else ""


def base_url_of(base_url: str | None, place: Place) -> str:
    """Scheme and host of a service, without a slash behind.

    Raises:
        ValidationError: ``base_url`` is no http or https URL.
    """
    if base_url is None:
        return place.url
    if not isinstance(base_url, str) or not re.fullmatch(r"https?://[^/?#@\s]+(?:/[^?#@\s]*)?", base_url):
        raise ValidationError("base_url must be an http or https URL without user info", path="base_url")
    return base_url.rstrip("/")
