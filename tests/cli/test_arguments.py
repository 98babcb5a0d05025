"""Arguments and the values that they stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.cli.arguments import read_uids, request_of
from rescale.cli.main import parser
from rescale.flink.operator_id import operator_id_of_uid
from rescale.options.command_line import add_options, arguments_of_step, values_of
from rescale.options.strict_parser import StrictArgumentParser
from rescale.planning.request.request import make_request
from rescale.planning.request.result_files import Files, Format
from rescale.planning.request.surgery_request import parse_surgery, surgery_from_options
from rescale.text.errors import RequestError


def test_list_of_uids_may_hold_uids_and_named_ids(tmp_path: Path) -> None:
    uids_file = tmp_path / "uids"
    uids_file.write_text(f"# comment\n\ncounts\n{'0A' * 16}  the sink # of old\n{'0b' * 16}\nwith space\n", "utf-8")
    assert read_uids(str(uids_file)) == (
        (operator_id_of_uid("counts"), "counts"),
        ("0a" * 16, "the sink"),
        (operator_id_of_uid("0b" * 16), "0b" * 16),
        (operator_id_of_uid("with space"), "with space"),
    )


def test_arguments_of_a_step_parse_to_the_values_of_the_command_line() -> None:
    """A name may begin with a dash, like an option."""
    arguments = ["--rename=-a=b", "--rename=c=--d", "--drop=-e", "--drop-state=--f:g", "--kafka-topic=-h=i"]
    arguments += ["--kafka-source=-j", "--allow-prefix=-k", "--moved=-l=m"]
    options = parser().parse_args(["diff", "/a", "/b", *arguments])
    step_parser = StrictArgumentParser()
    add_options(step_parser, "diff")
    step_options = step_parser.parse_args(arguments_of_step(options, "diff").options)
    assert vars(step_options) == {name: vars(options)[name] for name in vars(step_options)}
    assert step_options.rename == ["-a=b", "c=--d"]


def test_every_option_reaches_the_request_and_the_step(tmp_path: Path) -> None:
    (uids_file := tmp_path / "uids").write_text("visits\n", "utf-8")
    (offsets_file := tmp_path / "offsets.csv").write_text("topic,partition,offset\norders,0,5\n", "utf-8")
    surgery_arguments = ["--rename=a=b", "--drop=c", "--drop-state=d:e", "--kafka-topic=f=g", "--kafka-source=h=i"]
    surgery_arguments += [f"--kafka-offsets={offsets_file}"]
    arguments = ["--target=/b", "--parallelism=4", "--max-parallelism=visits=256", "--key-hash=lombok(a)"]
    arguments += ["--format=canonical", "--files=refer", f"--uids={uids_file}", "--allow-prefix=/c"]
    arguments += ["--moved=hdfs://n/d=/e", *surgery_arguments]
    surgery = parse_surgery(
        renames=["a=b"],
        drops=["c"],
        state_drops=["d:e"],
        kafka_offsets=offsets_file.read_text("utf-8"),
        kafka_topics=["f=g"],
        kafka_sources=["h=i"],
    )
    assert request_of(parser().parse_args(["plan", "/a", *arguments])) == make_request(
        "/a",
        "/b",
        ["4"],
        max_parallelism=["visits=256"],
        key_hash=["lombok(a)"],
        format=Format.CANONICAL,
        files=Files.REFER,
        uids=[(operator_id_of_uid("visits"), "visits")],
        allow_prefixes=["/c"],
        moved=["hdfs://n/d=/e"],
        surgery=surgery,
    )
    step_parser = StrictArgumentParser()
    add_options(step_parser, "diff")
    options, content_by_option = arguments_of_step(
        parser().parse_args(["diff", "/a", "/b", *surgery_arguments]), "diff"
    )
    assert content_by_option == {"--kafka-offsets": offsets_file.read_text("utf-8")}
    options.append(f"--kafka-offsets={offsets_file}")
    assert surgery_from_options(values_of(step_parser.parse_args(options), "diff")) == surgery


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_unreadable_list_of_uids_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "uids"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RequestError, match="list of uids cannot be read") as caught:
        read_uids(str(path))
    assert caught.value.path == str(path)
    assert ("UTF-8" in (caught.value.advice or "")) is (content is not None)
