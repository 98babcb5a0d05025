"""`rescale doctor`: its exit codes, its text, its document."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.cli.main import main
from support.commands import Captured, answer
from support.readme import fields
from support.snapshots import directory

SOURCE = directory("2-clicks")


def test_healthy_environment_ends_with_exit_code_0(capsys: Captured, tmp_path: Path) -> None:
    arguments = ["--source", SOURCE, "--target", str(tmp_path / "target")]
    code, document = answer(capsys, "doctor", *arguments)
    assert (code, document["healthy"]) == (0, True)
    assert document.keys() == fields("doctor")
    assert list(tmp_path.iterdir()) == []
    assert main(["doctor", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("ok ", "warning ")) for line in lines) == len(document["checks"])
    assert lines[-1].startswith(f"{len(document['checks'])} checks: 0 errors, ")


def test_failed_check_decides_the_exit_code_and_gives_advice(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.doctor.machine.SPARK_PACKAGES", ("nothing_of_this_name",))
    code, document = answer(capsys, "doctor")
    assert (code, document["healthy"]) == (2, False)
    assert main(["doctor"]) == 2
    text = capsys.readouterr().out
    assert "error    nothing_of_this_name: " in text
    assert 'what to do: pip install "flink-rescale[spark]"' in text


def test_document_names_files_whose_names_are_not_utf_8(capsys: Captured, tmp_path: Path) -> None:
    documents = tmp_path / "target.rescale"
    documents.mkdir()
    (documents / "caf\udce9").touch()
    code, document = answer(capsys, "doctor", "--target", str(tmp_path / "target"))
    assert code == 2
    assert r"found: other files, such as caf\udce9" in next(
        check["result"] for check in document["checks"] if check["outcome"] == "error"
    )


@pytest.mark.parametrize(
    "arguments", [["--target", "/"], ["--source", "ftp://a/b"], ["--flink", "jobmanager"], ["SOURCE"]]
)
def test_invalid_arguments_are_refused(capsys: Captured, arguments: list[str]) -> None:
    code, document = answer(capsys, "doctor", *arguments)
    assert (code, document["error"]) == (2, "RequestError")
