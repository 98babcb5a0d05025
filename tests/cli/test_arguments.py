"""What arguments stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.cli.arguments import read_uids, surgery_options
from rescale.cli.main import parser
from rescale.errors import RequestError
from rescale.execution.job import add_surgery
from rescale.flink.operator_id import operator_id_of_uid
from rescale.given_once import GivenOnce


def test_the_list_of_uids_has_uids_and_names_of_ids(tmp_path: Path) -> None:
    path = tmp_path / "uids"
    path.write_text(f"# comment\n\ncounts\n{'0A' * 16}  the sink # of old\n{'0b' * 16}\nwith space\n", "utf-8")
    assert read_uids(str(path)) == (
        (operator_id_of_uid("counts"), "counts"),
        ("0a" * 16, "the sink"),
        (operator_id_of_uid("0b" * 16), "0b" * 16),
        (operator_id_of_uid("with space"), "with space"),
    )


def test_a_step_takes_what_the_command_line_took() -> None:
    """A name may begin with a dash, as one that is an option."""
    words = ["--rename=-a=b", "--rename=c=--d", "--drop=-e", "--drop-state=--f:g", "--kafka-topic=-h=i"]
    words += ["--kafka-source=-j", "--allow-prefix=-k"]
    asked = parser().parse_args(["diff", "/a", "/b", *words])
    of_the_step = GivenOnce()
    add_surgery(of_the_step)
    passed = of_the_step.parse_args(surgery_options(asked))
    assert vars(passed) == {name: vars(asked)[name] for name in vars(passed)}
    assert passed.rename == ["-a=b", "c=--d"]


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_list_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "uids"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RequestError, match="list of uids cannot be read") as caught:
        read_uids(str(path))
    assert caught.value.path == str(path)
    assert ("UTF-8" in (caught.value.advice or "")) is (content is not None)
