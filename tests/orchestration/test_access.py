"""Access to S3 by an Airflow connection."""

from __future__ import annotations

import pytest

from rescale.errors import RequestError
from rescale.orchestration.access import DRIVER_POD, storage_access


def test_a_connection_is_refused_where_it_would_not_reach_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DRIVER_POD, "/etc/driver.yaml")
    with pytest.raises(RequestError, match="'s3' does not reach the pods") as caught, storage_access("s3"):
        pass
    assert "leave the field empty" in str(caught.value)
    with storage_access(None):
        pass
