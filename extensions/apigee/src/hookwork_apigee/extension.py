"""Provider hooks of hookwork-apigee: the names ``apigee/…``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.model import Model

_PREFIX = "apigee/"


@hookimpl
def create_model(name: str, settings: dict[str, Any], addressed: bool) -> Model | None:
    """The model of ``apigee/[provider/][version/]model`` (models APG-1, APG-5).

    Raises:
        hookwork.errors.ConfigurationError: the name has another form, no proxy is named, or ``[tool.hookwork.apigee]``
            holds an unknown key or a wrong value.
    """
    if not addressed and not name.startswith(_PREFIX):
        return None
    from hookwork_apigee.model import ApigeeModel
    from hookwork_apigee.options import options_from

    return ApigeeModel(_PREFIX + name.removeprefix(_PREFIX), **options_from(settings))
