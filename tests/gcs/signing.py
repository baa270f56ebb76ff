"""A made-up service account with a key of its own, and a service that signs with it."""

from __future__ import annotations

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.oauth2.service_account import Credentials
from tests.gcs.fake import FakeBucket

from hookwork_gcs import GcsArtifactService

EMAIL = "test-iam-credentials@dummy-project-id.iam.gserviceaccount.com"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def service_account(key: rsa.RSAPrivateKey | None = None) -> dict[str, str]:
    """The JSON of a service account's key, in the form that Google hands out."""
    pem = (key or new_key()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "client_email": EMAIL,
        "private_key": pem.decode(),
        "token_uri": "https://oauth2.googleapis.com/token",
    }


def signing_service(fake: FakeBucket, account: dict[str, str]) -> GcsArtifactService:
    credentials = Credentials.from_service_account_info(account)
    credentials.token = "t-1"
    return GcsArtifactService(fake.name, client=fake.client(), credentials=credentials)
