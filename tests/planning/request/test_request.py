"""The words of a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.planning.request.request import make_request, parse_key_hashes, parse_numbers
from rescale.text.errors import RequestError


def test_places_get_their_one_spelling() -> None:
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
def test_the_target_lies_apart_from_the_source(source: str, target: str) -> None:
    with pytest.raises(RequestError, match="must be neither inside the source nor around it"):
        make_request(source, target)


def test_the_target_lies_apart_from_the_source_behind_symbolic_links_too(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "source")
    for source, target in (("source", "link/t"), ("link", "source/t"), ("source", "link")):
        with pytest.raises(RequestError, match="must be neither inside the source"):
            make_request(str(tmp_path / source), str(tmp_path / target))


def test_a_name_that_only_begins_alike_is_apart() -> None:
    assert make_request("/a/b", "/a/b-rescaled").target == "/a/b-rescaled"


def test_a_target_that_flink_would_look_for_elsewhere_is_refused() -> None:
    with pytest.raises(RequestError, match="it reads a backslash as a slash"):
        make_request("/source", "/results/of\\clicks")
    assert make_request("/source\\1", "/target").source == "/source\\1"


def test_parallelism_is_for_all_or_for_one() -> None:
    arguments = ["4", "counts=6", "a=b=2", f"{'0a' * 16}=32768"]
    assert parse_numbers(arguments, "parallelism") == {"": 4, "counts": 6, "a=b": 2, "0a" * 16: 32768}
    assert parse_numbers([], "parallelism") == {}
    assert parse_numbers(["0" * 5000 + "4"], "parallelism") == {"": 4}


@pytest.mark.parametrize(
    "word", ["", "x", "0", "-1", "32769", "counts=", "counts=0", "1.5", "counts=٣", " 4", "9" * 5000], ids=range(11)
)
def test_a_word_that_is_no_parallelism_is_named(word: str) -> None:
    with pytest.raises(RequestError, match="not a parallelism"):
        parse_numbers([word], "parallelism")


@pytest.mark.parametrize("word", ["", "counts=", "nonsense", "counts=objects hash", "nosuch(a)"])
def test_a_word_that_is_no_hash_of_keys_is_named(word: str) -> None:
    with pytest.raises(RequestError, match="not a hash of keys") as caught:
        parse_key_hashes([word])
    assert "objects-hash" in str(caught.value.advice)


def test_an_operator_without_a_name_does_not_stand_for_all() -> None:
    """`"$UID=6"` where the variable is not set."""
    with pytest.raises(RequestError, match="an operator without a name"):
        parse_numbers(["=6"], "parallelism")
    with pytest.raises(RequestError, match="an operator without a name"):
        parse_key_hashes(["=keys:hash"])


@pytest.mark.parametrize(("arguments", "whose"), [(["2", "3"], "all operators"), (["a=2", "a=2"], "operator 'a'")])
def test_nothing_is_said_twice(arguments: list[str], whose: str) -> None:
    with pytest.raises(RequestError, match=f"parallelism of {whose} is given twice"):
        parse_numbers(arguments, "parallelism")


@pytest.mark.parametrize("target", ["s3://bucket", "s3://bucket/", "/"])
def test_a_target_needs_a_place_beside_it(target: str) -> None:
    with pytest.raises(RequestError, match="directory of its own"):
        make_request("s3://other/savepoint", target)
