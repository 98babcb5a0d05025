from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.scripted_s3 import ScriptedServer, scripted_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A scripted server that this process takes for S3; no time passes between attempts."""
    with scripted_server() as script:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{script.port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
        monkeypatch.setattr("time.sleep", lambda _: None)
        yield script
