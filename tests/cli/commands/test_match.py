"""`rescale match`: its exit codes, its text, its document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rescale.cli.main import main
from rescale.flink.operator_id import operator_id_of_uid
from support.readme import fields
from support.snapshots import directory

Captured = pytest.CaptureFixture[str]


def test_snapshot_of_another_release_has_the_same_operators(capsys: Captured) -> None:
    assert main(["match", directory("1.20-windows"), "--job", directory("2-windows"), "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.keys() == fields("match")
    assert (document["job_is"], document["options"], len(document["same"])) == ("snapshot", [], 11)


def test_plan_of_a_job_gives_names_and_unmatched_operators_are_listed(capsys: Captured, tmp_path: Path) -> None:
    id_by_name = {
        name: f"{index:032x}" for index, name in enumerate(("Source: prices", "shards", "EventTimeSessionWindows"))
    }
    nodes = [{"id": operator_id, "description": f"{name}<br/>"} for name, operator_id in id_by_name.items()]
    nodes += [{"id": operator_id_of_uid("revenue"), "description": "Co-Process<br/>+- clicks-per-user<br/>"}]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"plan": {"jid": "", "nodes": nodes}}))
    assert main(["match", directory("2-clicks"), "--job", str(plan)]) == 4
    text = capsys.readouterr().out
    assert f"--rename visits={id_by_name['EventTimeSessionWindows']}" in text
    assert f"--rename shards={id_by_name['shards']}" in text
    assert "clicks-per-user in the chain that begins with Co-Process, by its name" in text
    assert "--rename OLD=UID" in text
    assert "per-half-minute: " in text.partition("In the snapshot only")[2]
    assert main(["match", directory("1.20-clicks"), "--job", str(plan)]) == 4
    assert "holds no names of operators" in capsys.readouterr().out


def test_uids_that_neither_side_has_are_remarked(capsys: Captured, tmp_path: Path) -> None:
    """No remark names a uid that only the snapshot or only the job has."""
    uids_file, plan = tmp_path / "uids", tmp_path / "plan.json"
    plan.write_text(json.dumps({"plan": {"nodes": [{"id": operator_id_of_uid("fresh"), "description": "fresh"}]}}))
    for uids in ("fresh\nvisits\n", "fresh\nvisits\nvisit\n"):
        uids_file.write_text(uids)
        main(["match", directory("1.20-clicks"), "--job", str(plan), "--uids", str(uids_file), "--output", "json"])
        remarks = [remark for remark in json.loads(capsys.readouterr().out)["remarks"] if "has these names" in remark]
        assert [remark.partition(": ")[2] for remark in remarks] == [
            "visit; they may be misspelt, or belong to another job" for _ in range(uids.count("visit\n"))
        ]


def test_missing_job_is_a_request_error(capsys: Captured, tmp_path: Path) -> None:
    assert main(["match", directory("2-clicks"), "--job", str(tmp_path / "nothing")]) == 2
    assert "there is no snapshot" in capsys.readouterr().err
    assert main(["match", directory("2-clicks"), "--job", "/dev/null"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: this name is neither a directory nor a file")
    assert "expected: a file with the answer of Flink's REST API for the job, or the directory of a snapshot" in message


def test_missing_job_file_is_a_request_error_that_says_what_is_expected(capsys: Captured, tmp_path: Path) -> None:
    assert main(["match", directory("2-clicks"), "--job", str(tmp_path / "jbo.json")]) == 2
    message = capsys.readouterr().err
    assert f"path: {tmp_path}/jbo.json\n" in message
    assert "a file with the answer of Flink's REST API for the job" in message
    assert "jobs/JOB-ID > job.json" in message
