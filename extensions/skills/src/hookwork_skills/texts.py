"""A safe YAML loader that leaves plain values as they are written.

A frontmatter holds texts. ``version: 1.10`` is the text "1.10" here, not a number that has lost its zero.
"""

from __future__ import annotations

from typing import Any

import yaml

_NULL = "tag:yaml.org,2002:null"


class TextLoader(yaml.SafeLoader):
    """A `yaml.SafeLoader` that resolves nothing but null: merge keys can be made to fill memory."""

    yaml_implicit_resolvers: dict[str, Any] = {  # noqa: RUF012 - the library's own form
        first: [(tag, pattern) for tag, pattern in resolvers if tag == _NULL]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
