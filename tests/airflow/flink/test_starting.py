"""Hand-overs that are refused before the job is stopped, against answers of a stand-in for Flink."""

from __future__ import annotations

import json

import pytest

from rescale.airflow.flink.starting import check_hand_over
from rescale.airflow.hand_overs import RunJar
from rescale.text.errors import RequestError
from support.http_servers import LocalServer, QuietHandler, serving


@pytest.mark.parametrize(
    ("release", "is_refused"),
    [
        ("1.15.4", True),
        ("1.16.3", True),
        ("1.17.2", False),
        ("1.20-vendor-3", False),
        ("2.3.0", False),
        ("<unknown>", False),
    ],
)
def test_jar_is_refused_where_flink_takes_no_options_for_it(release: str, is_refused: bool) -> None:
    """Flink 1.16 answers 400: its strict mapper refuses the field `flinkConfiguration` of the request."""

    class Handler(QuietHandler):
        def answer(self) -> None:
            document = {
                "/overview": {"flink-version": release},
                "/jars": {"files": [{"id": "1_a.jar", "name": "a.jar"}]},
            }
            self.reply(200, json.dumps(document[self.path]))

    with serving(LocalServer(Handler)) as server:
        jar = RunJar(server.address, "a.jar")
        if is_refused:
            with pytest.raises(RequestError, match="cannot start a jar with options") as caught:
                check_hand_over(jar)
            assert caught.value.found == f"Flink {release}"
        else:
            check_hand_over(jar)
