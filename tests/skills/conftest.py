"""Skill folders on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PNG = b"\x89PNG\r\n\x1a\n\x00"


def document(name: str, description: str = "Does things.", body: str = "Do it.\n") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}"


@pytest.fixture
def write_skill(tmp_path: Path) -> Callable[..., Path]:
    """``write_skill("name", {"references/a.md": "text"}, description=…)`` makes a skill in ``skills``."""

    def write(name: str, files: dict[str, str | bytes] | None = None, text: str | None = None, **fields: str) -> Path:
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(document(name, **fields) if text is None else text, encoding="utf-8")
        for path, content in (files or {}).items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return write


@pytest.fixture
def skills(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    """A folder with the skills ``alpha`` and ``beta`` and a folder that is no skill."""
    write_skill("beta", description="Bakes & brews.")
    write_skill(
        "alpha",
        {
            "references/guide.md": "# Guide ü",
            "references/deep/more.md": "more",
            "assets/logo.png": PNG,
            "assets/blob.bin": b"\xff\xfe\x00",
            "scripts/run.py": "print(1)",
            "secret.txt": "no resource",
        },
    )
    (tmp_path / "skills" / "notes").mkdir()
    (tmp_path / "skills" / "README.md").write_text("not a folder")
    return tmp_path / "skills"
