"""Checks of a running job's cluster before the job is touched."""

from __future__ import annotations

import httpx
import pytest

from rescale.airflow.flink import inspection
from rescale.airflow.hand_overs import PatchDeployment
from rescale.flink_rest.client import Flink
from rescale.text.errors import RequestError


@pytest.mark.parametrize(("option", "is_refused"), [("false", False), ("true", True), (None, True)])
def test_jobmanager_that_ends_with_its_job_is_refused(option: str | None, is_refused: bool) -> None:
    """Without its JobManager, nobody knows which checkpoint was completed last. A session cluster does not end."""
    options = [] if option is None else [{"key": "execution.shutdown-on-application-finish", "value": option}]
    flink = Flink("http://flink", transport=httpx.MockTransport(lambda _: httpx.Response(200, json=options)))
    inspection._refuse_cluster_that_ends(flink, PatchDeployment("flink", "clicks", None, "FlinkSessionJob"))
    application = PatchDeployment("flink", "clicks")
    if is_refused:
        with pytest.raises(RequestError, match="the JobManager ends with its job"):
            inspection._refuse_cluster_that_ends(flink, application)
    else:
        inspection._refuse_cluster_that_ends(flink, application)
