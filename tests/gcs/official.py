"""Run by an interpreter that has google-cloud-storage: look at, and write to, a bucket with Google's own client.

python official.py read BUCKET       prints {name: [content type, metadata, bytes as Latin-1]}
python official.py write BUCKET      writes objects as google-adk 2.13 does
python official.py race BUCKET NAME  tries to create NAME; prints whether that failed on its precondition
python official.py sign BUCKET KEY NAME TIME SECONDS  prints a V4 URL of NAME, signed at TIME with the KEY in a file
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from unittest.mock import patch

from google.api_core.exceptions import PreconditionFailed
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.oauth2 import service_account


def sign(bucket_name: str, key: str, name: str, time: str, seconds: str) -> str:
    """The URL of an object for everybody."""
    client = storage.Client(project="p", credentials=service_account.Credentials.from_service_account_file(key))
    moment = datetime.fromisoformat(time)
    with patch("google.cloud.storage._signing._NOW", lambda zone: moment):
        return (
            client.bucket(bucket_name)
            .blob(name)
            .generate_signed_url(version="v4", expiration=timedelta(seconds=int(seconds)))
        )


def main(what: str, bucket_name: str, *more: str) -> None:
    """Do it."""
    if what == "sign":
        print(sign(bucket_name, *more))
        return
    bucket = storage.Client(project="p", credentials=AnonymousCredentials()).bucket(bucket_name)
    if what == "read":
        seen = {
            blob.name: [blob.content_type, blob.metadata, blob.download_as_bytes().decode("latin-1")]
            for blob in bucket.list_blobs()
        }
        print(json.dumps(seen))
    elif what == "write":
        text = bucket.blob("shop/ann/s1/t.txt/0")
        text.metadata = {"adkIsText": "true", "pages": "2"}
        text.upload_from_string("ü", content_type="text/plain", if_generation_match=0)
        picture = bucket.blob("shop/ann/user/user:profil bild.png/0")
        picture.metadata = {"adkDisplayName": "Bild"}
        picture.upload_from_string(b"\x89PNG", content_type="image/png", if_generation_match=0)
    else:
        try:
            bucket.blob(more[0]).upload_from_string(b"late", if_generation_match=0)
            print("created")
        except PreconditionFailed:
            print("precondition failed")


if __name__ == "__main__":
    main(*sys.argv[1:])
