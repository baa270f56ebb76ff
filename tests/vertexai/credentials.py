"""A service account whose tokens the fake gives out."""

from __future__ import annotations

import json
from pathlib import Path

from tests.vertexai.fake import FakeVertex


def key_file(folder: Path, fake: FakeVertex) -> Path:
    """A key file for GOOGLE_APPLICATION_CREDENTIALS."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    described = {
        "type": "service_account",
        "client_email": "agent@p.iam.gserviceaccount.com",
        "token_uri": f"{fake.url}/token",
        "private_key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    }
    path = folder / "key.json"
    path.write_text(json.dumps(described), encoding="utf-8")
    return path
