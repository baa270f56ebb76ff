"""What other models left in a conversation that a Gemini model goes on with."""

from __future__ import annotations

from base64 import urlsafe_b64decode

from hookwork.records.content import Content
from hookwork_gemini.capabilities import version_of

#: Stands for the signature of a call that Gemini did not make. Google documents this text for histories of other
#: models ("Thought signatures" in the documentation of the Gemini API); it has to go over the wire as it is, and the
#: SDK writes these bytes, as URL-safe base64, so.
UNSIGNED = urlsafe_b64decode("skip_thought_signature_validator")


def insists_on_signatures(name: str) -> bool:
    """Whether a model refuses calls without a thought signature: Gemini 3 and later, and the names of the newest."""
    version = version_of(name)
    return version >= 3 if version is not None else name.endswith("-latest")


def signed(content: Content) -> Content:
    """The content with a signature on its first call, if none of its calls has one.

    Of parallel calls Gemini signs the first alone, so one signature makes a content valid.
    """
    calls = [index for index, part in enumerate(content.parts) if part.function_call is not None]
    if not calls or any(content.parts[index].thought_signature for index in calls):
        return content
    parts = list(content.parts)
    parts[calls[0]] = parts[calls[0]].replace(thought_signature=UNSIGNED)
    return content.replace(parts=parts)


def unnoted(content: Content) -> Content:
    """A model's content without part metadata: notes of the adapter that wrote them, meant for that adapter alone."""
    if content.role != "model" or all(part.part_metadata is None for part in content.parts):
        return content
    return content.replace(parts=[part.replace(part_metadata=None) for part in content.parts])
