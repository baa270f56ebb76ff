"""Images and files in the forms of both APIs (models OAI-11, OAI-12, §8a)."""

from __future__ import annotations

import base64
import mimetypes
from typing import Any

from hookwork.records.content import Blob, FileData, FunctionResponseBlob, FunctionResponsePart
from hookwork_openai.call import Call

_FILE_ID = "file-"


def inline_item(call: Call, blob: Blob | FunctionResponseBlob) -> dict[str, Any]:
    """The content item of inline bytes.

    Raises:
        ModelError: audio or video, or bytes without a mime type.
    """
    mime = (blob.mime_type or "").lower()
    if not mime:
        raise call.refused("unsupported_part", "inline data without a mime type cannot be sent; name its type")
    _refuse_sound_and_film(call, mime)
    url = f"data:{mime};base64,{base64.b64encode(blob.data or b'').decode()}"
    if mime.startswith("image/"):
        return image_item(call, {"image_url": url})
    suffix = mimetypes.guess_extension(mime.partition(";")[0]) or ""
    return file_item(call, {"filename": blob.display_name or f"file{suffix}", "file_data": url})


def uri_item(call: Call, file: FileData) -> dict[str, Any]:
    """The content item of data that lives elsewhere: a file id of the service, or a URL.

    Raises:
        ModelError: audio or video, no URI, or a file URL where the API takes none.
    """
    uri, mime = file.file_uri or "", (file.mime_type or "").lower()
    if not uri:
        raise call.refused("unsupported_part", "file data without a URI cannot be sent")
    _refuse_sound_and_film(call, mime)
    is_image = mime.startswith("image/") or (not mime and _looks_like_an_image(uri))
    if uri.startswith(_FILE_ID):
        if is_image and not call.chat:
            return image_item(call, {"file_id": uri})
        return file_item(call, {"file_id": uri})
    if is_image:
        return image_item(call, {"image_url": uri})
    if call.chat:
        raise call.refused(
            "unsupported_part",
            "Chat Completions take no file by URL; send its bytes, or the id of an upload, or set api='responses'",
        )
    return file_item(call, {"file_url": uri})


def response_items(call: Call, parts: tuple[FunctionResponsePart, ...]) -> list[dict[str, Any]]:
    """The items of the media inside a function response (models OAI-12)."""
    items = []
    for part in parts:
        if part.inline_data is not None:
            items.append(inline_item(call, part.inline_data))
        elif part.file_data is not None:
            items.append(uri_item(call, part.file_data))
    return items


def image_item(call: Call, source: dict[str, str]) -> dict[str, Any]:
    """An image, by ``image_url`` or ``file_id``."""
    if call.chat:
        return {"type": "image_url", "image_url": {"url": source["image_url"]}}
    return {"type": "input_image", "detail": "auto", **source}


def file_item(call: Call, source: dict[str, str]) -> dict[str, Any]:
    """A file, by ``filename`` and ``file_data``, ``file_id`` or ``file_url``."""
    if call.chat:
        return {"type": "file", "file": source}
    return {"type": "input_file", **source}


def _looks_like_an_image(uri: str) -> bool:
    guessed = mimetypes.guess_type(uri.partition("?")[0])[0]
    return uri.startswith("data:image/") or (guessed or "").startswith("image/")


def _refuse_sound_and_film(call: Call, mime: str) -> None:
    if mime.startswith(("audio/", "video/")):
        raise call.refused(
            "unsupported_part", f"{mime} cannot be sent to a text model; transcribe it first, or use a live session"
        )
