"""ForSt stores states of the older API in the same files as RocksDB, and they are rescaled in the same way.

States of the newer, asynchronous API, which SQL can use, are stored differently and are refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.cases import everything, graph
from oracle.harness import Flink, FlinkError
from rescale.report.pages.inspection import inspection
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import UnsupportedError
from support.pipeline import execute_without_spark, plan_rescale

JOB = everything(3).with_(backend="forst")
ASYNCHRONOUS_JOB = graph("sql", 2).with_(backend="forst", configuration={"table.exec.async-state.enabled": "true"})


@pytest.mark.gate
@pytest.mark.slow
def test_flink_continues_from_rescaled_state_of_forst(flink_2: Flink, tmp_path: Path) -> None:
    source = flink_2.snapshot(JOB, tmp_path / "source", "native")
    assert {kind for o in open_snapshot(str(source)).operators for kind in o.holder_kinds} == {"RocksDB directories"}
    copy, cut, rehashed, canonical = (tmp_path / name for name in ("copy", "cut", "rehashed", "canonical"))
    execute_without_spark(plan_rescale(str(source), str(copy)))
    execute_without_spark(plan_rescale(str(source), str(cut), ["5"]))
    execute_without_spark(plan_rescale(str(source), str(rehashed), ["5"], max_parallelism=["256"]))
    execute_without_spark(plan_rescale(str(source), str(canonical), ["4"], max_parallelism=["256"], format="canonical"))
    assert flink_2.restore(copy, JOB, JOB.with_(parallelism=2), next_kind="native").ok
    assert flink_2.restore(cut, JOB, JOB.with_(parallelism=5), next_kind="native").ok
    assert flink_2.restore(rehashed, JOB, JOB.with_(parallelism=5, max_parallelism=256), next_kind="native").ok
    rescaled_job = JOB.with_(parallelism=4, max_parallelism=256)
    assert flink_2.restore(canonical, JOB, rescaled_job.with_(backend="rocksdb"), next_kind="canonical").ok
    with pytest.raises(FlinkError, match="Not support restoring"):
        flink_2.restore(canonical, JOB, rescaled_job)


@pytest.mark.parametrize("result_format", ["keep", "canonical"])
@pytest.mark.slow
def test_state_of_the_asynchronous_api_in_forst_is_refused(flink_2: Flink, tmp_path: Path, result_format: str) -> None:
    source = flink_2.snapshot(ASYNCHRONOUS_JOB, tmp_path / "source", "native")
    assert "(ForSt keyed state)" in inspection(open_snapshot(str(source))).kind
    with pytest.raises(UnsupportedError, match="ForSt keeps for the asynchronous state API"):
        plan_rescale(str(source), str(tmp_path / "target"), format=result_format)
    assert not (tmp_path / "target").exists()
