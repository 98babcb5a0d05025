"""The extra of a connection, whatever kind of JSON value it is."""

from __future__ import annotations

import pytest
from airflow.sdk import Connection

from rescale.airflow.connections.extra import extra_of
from rescale.airflow.flink.flink_access import open_flink
from rescale.text.errors import RequestError


@pytest.mark.parametrize(
    ("extra", "fields"), [(None, {}), ("", {}), ("null", {}), ("{}", {}), ('{"verify": false}', {"verify": False})]
)
def test_fields_of_an_extra(extra: str | None, fields: dict[str, object]) -> None:
    assert extra_of("session", Connection(conn_id="session", conn_type="http", extra=extra)) == fields


@pytest.mark.parametrize(("extra", "kind"), [('["planted"]', "list"), ('"planted"', "str"), ("7", "int")])
def test_other_value_is_refused_without_showing_it(extra: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow 3.3 accepts such an extra from the environment or a secrets backend; 3.1 finds no connection then."""
    connection = Connection(conn_id="session", conn_type="http", host="flink", extra=extra)
    monkeypatch.setattr(Connection, "get", lambda _: connection)
    with pytest.raises(RequestError, match="the extra of the connection 'session' is no JSON object") as caught:
        open_flink("session")
    assert caught.value.found == f"a {kind}"
    assert "planted" not in str(caught.value)
