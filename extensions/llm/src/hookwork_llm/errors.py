"""Errors of LLM agents beyond those of the kernel."""

from __future__ import annotations

from hookwork.errors import HookworkError


class MissingStateKey(HookworkError, KeyError):
    """An instruction names a state value that the session does not have (core INS-3).

    ``key`` is the state key, ``agent`` the name of the agent whose instruction it is.
    """

    def __init__(self, key: str, agent: str) -> None:
        self.key = key
        self.agent = agent
        super().__init__(
            f"the instruction of agent {agent!r} names {{{key}}}, but the session has no state value {key!r}; set it "
            f"before the agent runs, write {{{key}?}} for a value that may be absent, or {{{{{key}}}}} for a literal "
            f"{{{key}}} (templating=False takes the whole text as it is)"
        )

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which is for keys and not for sentences.
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[MissingStateKey], tuple[str, str]]:
        return type(self), (self.key, self.agent)
