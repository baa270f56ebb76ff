"""What goes wrong with skills (tools-plugins SK-03)."""

from __future__ import annotations

from hookwork.errors import HookworkError


class SkillError(HookworkError):
    """Base of the errors of skill sources."""


class InvalidFrontmatter(SkillError, ValueError):
    """A SKILL.md without a frontmatter that keeps the rules."""


class InvalidSkillName(InvalidFrontmatter):
    """A name that is no skill name, or that is not the name of the skill's folder."""


class SkillNotFound(SkillError, LookupError):
    """The source has no skill of that name."""


class DuplicateSkill(SkillError, ValueError):
    """Two skills of one name."""


class InvalidResourcePath(SkillError, ValueError):
    """A path that leads out of the three resource folders of a skill."""


class ResourceNotFound(SkillError, FileNotFoundError):
    """The skill has no file or folder at that path."""


class ResourceTooLarge(SkillError, ValueError):
    """A file above the limit of what is read into memory."""
