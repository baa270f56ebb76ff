"""The example of the README runs, against an emulator, and prints what its comments say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.gcs.fake import FakeBucket
from tests.gcs.servers import make_bucket
from tests.gcs.signing import service_account, signing_service

from hookwork_gcs import GcsArtifactService

README = Path(__file__).parents[2] / "extensions" / "gcs" / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_example(gcs: str) -> None:
    code, _ = EXAMPLES
    make_bucket(gcs, "my-bucket")
    expected = re.findall(r"print\(.*\)  # (.*)", code)
    program = f"{code}\nimport asyncio\nasyncio.run(main())\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "STORAGE_EMULATOR_HOST": gcs},
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    assert len(expected) == 2
    assert done.stdout.splitlines() == expected


async def test_the_urls_of_the_example() -> None:
    """With the key of a made-up account, on a bucket in this process."""
    account = service_account()
    fake = FakeBucket("my-bucket")
    fake.put("shop/ann/s1/report.md/2", b"final", "text/plain")

    def service(bucket: str) -> GcsArtifactService:
        return signing_service(fake, account)

    names: dict[str, Any] = {
        "GcsArtifactService": service,
        "KEY": {"app_name": "shop", "user_id": "ann", "session_id": "s1"},
    }
    exec(EXAMPLES[1], names)
    everybody, signed_in = await names["urls"]()
    assert everybody.startswith("https://storage.googleapis.com/my-bucket/shop/ann/s1/report.md/2?X-Goog-Algorithm=")
    assert "&X-Goog-Expires=3600&" in everybody
    assert signed_in == "https://storage.cloud.google.com/my-bucket/shop/ann/s1/report.md/2"
