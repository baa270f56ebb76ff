"""The plugin: files of a message become artifacts before the message is stored (tools-plugins SP-43)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookwork import Content, Part, Plugin
from hookwork.errors import ConfigurationError
from hookwork_save_files.names import Namer, distinct, own_name

if TYPE_CHECKING:
    from hookwork import InvocationContext

SCOPES = ("session", "user")


class SaveFiles(Plugin):
    """Saves each file that a message brings as an artifact, and puts a text that names it in the file's place.

    So the session holds names instead of bytes. It replaces ``RunConfig.save_input_blobs_as_artifacts`` for those who
    want other names.

    Args:
        namer: (part, position in the message, invocation id) → artifact name; default: the file's own name.
        text: what stands in a file's place; ``{filename}`` is the artifact's name.
        keep_inline: leave the file in the message too, behind the text, so that the model sees it at once.
        scope: ``session``, or ``user``: the artifact belongs to the user and is seen in all sessions.
        name: the plugin's name.

    Raises:
        ConfigurationError: an unknown scope; in a run: the runner has no artifact service.
    """

    def __init__(
        self,
        *,
        namer: Namer = own_name,
        text: str = 'Uploaded file: "{filename}". It is saved as an artifact.',
        keep_inline: bool = False,
        scope: str = "session",
        name: str = "save_files",
    ) -> None:
        if scope not in SCOPES:
            raise ConfigurationError(f"plugin {name!r}: scope is one of {', '.join(SCOPES)}, not {scope!r}")
        self.name = name
        self._namer = namer
        self._text = text
        self._keep_inline = keep_inline
        self._prefix = "user:" if scope == "user" else ""

    async def on_user_message(self, ctx: InvocationContext, message: Content) -> Content | None:
        """The message with names for files; None when it has none. A file that cannot be saved ends the run."""
        if not any(part.inline_data is not None for part in message.parts):
            return None
        parts: list[Part] = []
        taken: set[str] = set()
        for position, part in enumerate(message.parts):
            if part.inline_data is None:
                parts.append(part)
                continue
            filename = distinct(self._namer(part, position, ctx.invocation_id), position, taken)
            taken.add(filename)
            filename = self._prefix + filename
            await ctx.artifacts.save(filename, part)
            parts.append(Part(text=self._text.replace("{filename}", filename)))
            if self._keep_inline:
                parts.append(part)
        return message.replace(parts=parts)
