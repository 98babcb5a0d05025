"""Requests are read from their options, or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rescale.flink.operator_id import operator_id_of_uid
from rescale.planning.request.request import make_request, parse_key_hashes, parse_numbers, parse_uids
from rescale.planning.request.result_files import Files
from rescale.text.errors import RequestError


def test_locations_in_a_request_are_normalised() -> None:
    request = make_request("s3a://b/save/../save/1/", "file:///t/", ["4"], allow_prefixes=["s3p://b/other/"])
    assert (request.source, request.target) == ("s3://b/save/1", "/t")
    assert request.allow_prefixes == ("s3://b/other",)
    assert request.parallelism == {"": 4}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("/a/b", "/a/b"),
        ("/a/b", "/a/b/c"),
        ("/a/b", "/a"),
        ("/a/b/_metadata", "/a/b/c"),
        ("/a/b/_metadata", "/a/b"),
        ("s3://b/k", "s3a://b/k/"),
        ("s3://b/k/s", "s3://b/k"),
        ("/a/b", "/a/c/../b"),
        ("/a/b.rescale", "/a/b"),
        ("/a/b.rescale/c", "/a/b"),
    ],
)
def test_target_inside_or_around_the_source_is_refused(source: str, target: str) -> None:
    with pytest.raises(RequestError, match="must not lie inside the source, nor contain it"):
        make_request(source, target)


def test_target_that_reaches_the_source_by_symbolic_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "source")
    for source, target in (("source", "link/t"), ("link", "source/t"), ("source", "link")):
        with pytest.raises(RequestError, match="must not lie inside the source"):
            make_request(str(tmp_path / source), str(tmp_path / target))


def test_target_that_leads_to_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(RequestError, match="not valid UTF-8"):
        make_request("/source", f"{tmp_path}/link/target")


def test_target_whose_name_begins_like_the_source_is_accepted() -> None:
    assert make_request("/a/b", "/a/b-rescaled").target == "/a/b-rescaled"


def test_target_with_a_backslash_is_refused() -> None:
    with pytest.raises(RequestError, match="it reads a backslash as a slash"):
        make_request("/source", "/results/of\\clicks")
    assert make_request("/source\\1", "/target").source == "/source\\1"


@pytest.mark.parametrize(
    "target",
    ["/a/target.rescale", "s3://bucket/target.rescale/", "s3://bucket/target.rescale/staging", "/a.rescale/pins/t"],
)
def test_target_in_place_of_the_documents_of_another_one_is_refused(target: str) -> None:
    with pytest.raises(RequestError, match="documents of a run"):
        make_request("/source", target)


@pytest.mark.parametrize(
    "target", ["s3://team.rescale/staging", "/a/team.rescale/target", "/a/target.rescale/rounds/7", "/a/rescale"]
)
def test_target_below_a_directory_with_the_suffix_of_documents_is_accepted(target: str) -> None:
    assert make_request("/source", target).target == target


def test_parallelism_is_read_for_all_operators_or_for_a_named_one() -> None:
    arguments = ["4", "counts=6", "a=b=2", f"{'0a' * 16}=32768"]
    assert parse_numbers(arguments, "parallelism") == {"": 4, "counts": 6, "a=b": 2, "0a" * 16: 32768}
    assert parse_numbers([], "parallelism") == {}
    assert parse_numbers(["0" * 5000 + "4"], "parallelism") == {"": 4}


@pytest.mark.parametrize(
    "argument", ["", "x", "0", "-1", "32769", "counts=", "counts=0", "1.5", "counts=٣", " 4", "9" * 5000], ids=range(11)
)
def test_invalid_parallelism_is_refused(argument: str) -> None:
    with pytest.raises(RequestError, match="not a parallelism"):
        parse_numbers([argument], "parallelism")


@pytest.mark.parametrize("argument", ["", "counts=", "nonsense", "counts=objects hash", "nosuch(a)"])
def test_invalid_key_hash_is_refused_with_the_formulas(argument: str) -> None:
    with pytest.raises(RequestError, match="not a hash of keys") as caught:
        parse_key_hashes([argument])
    assert "objects-hash" in str(caught.value.advice)


def test_value_for_an_empty_operator_name_is_refused() -> None:
    """A shell makes such a value from `"$UID=6"` if the variable is not set."""
    with pytest.raises(RequestError, match="an operator without a name"):
        parse_numbers(["=6"], "parallelism")
    with pytest.raises(RequestError, match="an operator without a name"):
        parse_key_hashes(["=keys:hash"])


@pytest.mark.parametrize(("arguments", "whose"), [(["2", "3"], "all operators"), (["a=2", "a=2"], "operator 'a'")])
def test_parallelism_given_twice_is_refused(arguments: list[str], whose: str) -> None:
    with pytest.raises(RequestError, match=f"parallelism of {whose} is given twice"):
        parse_numbers(arguments, "parallelism")


@pytest.mark.parametrize("target", ["s3://bucket", "s3://bucket/", "/"])
def test_target_at_the_root_of_a_store_is_refused(target: str) -> None:
    with pytest.raises(RequestError, match="directory of its own"):
        make_request("s3://other/savepoint", target)


def test_only_a_result_in_s3_is_bound_to_the_store_of_the_files_that_it_refers_to(tmp_path: Path) -> None:
    local_target = str(tmp_path / "new")
    for source, target in (
        ("s3://b/old", local_target),
        ("s3://b/old", "s3://c/new"),
        (str(tmp_path / "old"), local_target),
    ):
        assert make_request(source, target, files=Files.REFER).files is Files.REFER
    with pytest.raises(RequestError, match="a result in S3 cannot refer to local files"):
        make_request(str(tmp_path / "old"), "s3://c/new", files=Files.REFER)


def test_uids_may_contain_a_number_sign_and_have_a_comment_behind() -> None:
    operator_id = "AB" * 16
    lines = ["# all operators", "sink#1", "sink#2  # the second", "", "  ", f"{operator_id} map #2", f"{operator_id}"]
    assert parse_uids(lines) == (
        *((operator_id_of_uid(uid), uid) for uid in ("sink#1", "sink#2")),
        (operator_id.lower(), "map"),
        (operator_id_of_uid(operator_id), operator_id),
    )
