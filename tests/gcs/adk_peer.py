"""Run by an interpreter that has google-adk 2.13 and google-cloud-storage: its artifact service on the emulator.

python adk_peer.py BUCKET load NAME VERSION     prints [kind, MIME type, bytes as Latin-1 or URI] of shop/ann/s1
python adk_peer.py BUCKET refer NAME URI        saves a part that names a URI; prints the version
python adk_peer.py BUCKET url NAME VERSION      prints the authenticated URL
"""

from __future__ import annotations

import asyncio
import json
import sys

from google.adk.artifacts.gcs_artifact_service import GcsArtifactService
from google.auth.credentials import AnonymousCredentials
from google.genai import types

KEY = {"app_name": "shop", "user_id": "ann", "session_id": "s1"}


def shown(part):
    if part is None:
        return None
    if part.inline_data is not None:
        return ["bytes", part.inline_data.mime_type, part.inline_data.data.decode("latin-1")]
    if part.file_data is not None:
        return ["uri", part.file_data.mime_type, part.file_data.file_uri]
    return ["text", None, part.text]


async def main(bucket, what, name, last):
    service = GcsArtifactService(bucket, project="p", credentials=AnonymousCredentials())
    if what == "load":
        print(json.dumps(shown(await service.load_artifact(**KEY, filename=name, version=int(last)))))
    elif what == "url":
        print(await service.get_authenticated_url(**KEY, filename=name, version=int(last)))
    else:
        part = types.Part(file_data=types.FileData(file_uri=last))
        print(await service.save_artifact(**KEY, filename=name, artifact=part))


asyncio.run(main(*sys.argv[1:]))
