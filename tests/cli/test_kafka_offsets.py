"""Kafka offsets are printed by `inspect`, edited, and given back as a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rescale.cli.main import main
from rescale.flink.operator_id import operator_id_of_uid
from support.kafka_state import enumerator, reader_element, source_savepoint
from support.schemas import assert_valid

ORDERS_ID = operator_id_of_uid("orders")


def test_printed_offsets_are_edited_and_given_to_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    enumerator_state = enumerator([("orders", 0, 0), ("orders", 1, 0)])
    splits = [[reader_element("orders", 0, 40)], [reader_element("orders", 1, -1)]]
    source, offsets_file = source_savepoint(tmp_path / "source", splits, enumerator_state), tmp_path / "offsets"
    assert main(["inspect", source, "--kafka-offsets", "csv"]) == 0
    printed_offsets = capsys.readouterr().out
    assert printed_offsets == f"operator,topic,partition,offset\n{ORDERS_ID},orders,0,40\n{ORDERS_ID},orders,1,latest\n"
    plan_command = [
        "plan",
        source,
        "--target",
        str(tmp_path / "target"),
        "--kafka-offsets",
        str(offsets_file),
        "--output",
        "json",
    ]
    for output_format in ("csv", "json"):
        assert main(["inspect", source, "--kafka-offsets", output_format]) == 0
        printed_offsets = capsys.readouterr().out
        if output_format == "json":
            assert_valid("kafka-offsets", json.loads(printed_offsets))
        offsets_file.write_text(printed_offsets.replace("40", "17").replace("latest", "drop"))
        assert main(plan_command) == 0
        document = json.loads(capsys.readouterr().out)
        (change,) = document["surgery"]["kafka"]
        assert [
            (partition["next"], partition["new_next"], partition["dropped"]) for partition in change["partitions"]
        ] == [
            (40, 17, False),
            ("latest", None, True),
        ]
        assert [partition["next"] for partition in document["kafka"][0]["partitions"]] == [17]
    offsets_file.write_text("topic,partition,offset\norders,0,five\n")
    assert main(plan_command) == 2
    assert json.loads(capsys.readouterr().out)["path"] == str(offsets_file)
    offsets_file.unlink()
    assert main(plan_command) == 2
    assert "the Kafka offsets cannot be read: No such file" in capsys.readouterr().err


def test_offsets_of_a_comparison_may_come_through_a_pipe(tmp_path: Path) -> None:
    enumerator_state = enumerator([("orders", 0, 0)])
    a, b = (
        source_savepoint(tmp_path / str(offset), [[reader_element("orders", 0, offset)]], enumerator_state)
        for offset in (40, 50)
    )
    diff_command = [sys.executable, "-m", "rescale.cli.main", "diff", a, b, "--kafka-offsets", "/dev/stdin"]
    offsets = "topic,partition,offset\norders,0,50\n"
    process = subprocess.run(diff_command, input=offsets, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 0, process.stdout + process.stderr


def test_two_output_formats_at_once_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = source_savepoint(tmp_path / "source", [[reader_element("orders", 0, 40)]], enumerator([("orders", 0, 0)]))
    inspect_command = ["inspect", source, "--output", "json", "--kafka-offsets"]
    assert main([*inspect_command, "csv"]) == 2
    error = json.loads(capsys.readouterr().out)
    assert (error["error"], error["found"]) == ("RequestError", "--kafka-offsets csv and --output json")
    assert "leave --output json out, or use --kafka-offsets json" in error["advice"]
    assert main([*inspect_command, "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"operator": ORDERS_ID, "topic": "orders", "partition": 0, "offset": 40}
    ]
