"""The examples of the README run; the adapter it shows passes the model suite."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from hookwork import Model, ModelRequest, ModelResponse, UsageMetadata, text_content
from hookwork_testkit.suites import ModelSuite

TEXT = (Path(__file__).parents[2] / "extensions" / "modelkit" / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def names_of(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    return names


def test_the_first_example(capsys: Any) -> None:
    names_of(EXAMPLES[0])
    assert capsys.readouterr().out.splitlines() == ["True Hel", "True lo.", "Hello."]


async def service(request: ModelRequest) -> AsyncGenerator[str, None]:
    for word in ("You ", "said ", "something."):
        yield word


async def failing(request: ModelRequest) -> AsyncGenerator[str, None]:
    raise ConnectionResetError
    yield ""


async def breaking(request: ModelRequest) -> AsyncGenerator[str, None]:
    yield "You "
    raise ConnectionResetError


def read(chunk: str) -> ModelResponse:
    return ModelResponse(content=text_content(chunk))


class TestTheAdapterOfTheReadme(ModelSuite):
    acme: Any = staticmethod(names_of(EXAMPLES[1])["AcmeModel"])

    def make_model(self) -> Model:
        return self.acme(service, read)  # type: ignore[no-any-return]

    def make_failing_model(self) -> Model:
        return self.acme(failing, read)  # type: ignore[no-any-return]

    def make_breaking_model(self) -> Model:
        return self.acme(breaking, read)  # type: ignore[no-any-return]

    def make_reporting_model(self, usage: UsageMetadata | None) -> Model:
        return self.acme(service, lambda chunk: read(chunk).replace(usage_metadata=usage))  # type: ignore[no-any-return]


def test_every_public_name_is_described() -> None:
    import hookwork_modelkit

    for name in hookwork_modelkit.__all__:
        assert f"`{name}`" in TEXT
