"""The form refuses what makes no sense of one value alone, and what it takes becomes the request that it stands for."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import ParamValidationError

from rescale.errors import RequestError
from rescale.orchestration.form import (
    look_form,
    proof_of,
    refuse_silent_copy,
    refuse_unasked_drops,
    refuse_unknown_fields,
    request_of,
    rescale_form,
    stripped,
    understood,
)
from rescale.orchestration.key_functions import ALLOWED_MODULES
from rescale.planning.asked.request import Format, make_request, parse_uids
from rescale.planning.values.proof import Proof

_PLACES = {"source": "s3://bucket/save", "target": "/mnt/rescaled"}


def filled(**values: Any) -> dict[str, Any]:
    """The Params of a run that was triggered with these values, as a task gets them."""
    params = ParamsDict(rescale_form())
    params.update(values)
    return dict(params.validate())


def test_places_alone_are_a_request() -> None:
    assert request_of(filled(**_PLACES)) == make_request("s3://bucket/save", "/mnt/rescaled")


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        ({"parallelism": "6"}, True),
        ({"parallelism": 6}, True),
        ({"max_parallelism": " 256 "}, True),
        ({"operators": {"visits": {"parallelism": 3}}}, True),
        ({"format": "canonical"}, True),
        ({"renames": ["visits=visitors"]}, True),
        ({"drops": ["visits"]}, True),
        ({"kafka_offsets": "topic,partition,offset\norders,0,5"}, True),
        ({"kafka_offsets": " \n"}, False),
        ({"kafka_topics": ["orders=orders-v2"]}, True),
        ({"kafka_sources": ["orders"]}, True),
        ({"state_drops": ["visits:count"]}, True),
        ({"same_shape": True}, True),
        ({}, False),
        ({"parallelism": " ", "operators": {}}, False),
        ({"same_shape": True, "parallelism": 6}, False),
    ],
    ids=str,
)
def test_a_copy_must_be_asked_for_by_its_name(values: dict[str, Any], asked: bool) -> None:
    params = stripped(filled(**_PLACES, **values))
    if asked:
        refuse_silent_copy(params)
    else:
        with pytest.raises(RequestError, match="the form asks for") as caught:
            refuse_silent_copy(params)
        assert "Same shape: a self-contained copy" in str(caught.value.advice)


def test_nothing_is_lost_that_nobody_was_asked_about() -> None:
    refuse_unasked_drops(filled(**_PLACES))
    refuse_unasked_drops(filled(**_PLACES, drops=["visits"], require_approval=True))
    looked = {name: value for name, value in filled(**_PLACES, drops=["visits"]).items() if name in look_form()}
    refuse_unasked_drops(looked)
    with pytest.raises(RequestError, match="nobody would be asked") as caught:
        refuse_unasked_drops(filled(**_PLACES, drops=["visits"]))
    with pytest.raises(RequestError, match="states are dropped"):
        refuse_unasked_drops(filled(**_PLACES, state_drops=["visits:count"]))
    assert (caught.value.found, '"Ask before anything moves"' in str(caught.value.advice)) == ("visits", True)


def test_spaces_around_values_do_no_harm() -> None:
    given = {"parallelism": "6", "operators": {"visits": {"parallelism": 3}}, "allowed_prefixes": ["/shared"]}
    spaced = {"parallelism": " 6 ", "operators": {" visits ": {"parallelism": 3}}, "allowed_prefixes": [" /shared "]}
    places = {"source": " s3://bucket/save ", "target": " /mnt/rescaled"}
    assert request_of(filled(**places, **spaced)) == request_of(filled(**_PLACES, **given))
    assert stripped(filled(**_PLACES, connection=" s3 "))["connection"] == "s3"


def test_what_was_understood_is_told_in_a_sentence() -> None:
    params = filled(
        **_PLACES, parallelism="6", operators={"visits": {"max_parallelism": 512}}, renames=["visits=visitors"]
    )
    assert understood(request_of(params)) == (
        "asked for: parallelism 6, max parallelism as it is, max parallelism 512 for visits, visits renamed to "
        "visitors; format keep"
    )


def test_every_field_arrives_in_the_request() -> None:
    params = filled(
        **_PLACES,
        parallelism=6,
        max_parallelism=256,
        operators={"visits": {"parallelism": 3, "max_parallelism": 512}, "a=b": {"parallelism": 4}},
        format="canonical",
        key_hashes=["objects-hash(a,b)", "visits=lombok(id)"],
        operator_names=["visits", "# a remark"],
        allowed_prefixes=["s3://shared/state"],
        renames=["visits=visitors", " a=b=c"],
        drops=["totals"],
        kafka_offsets="topic,partition,offset\norders,0,5\n",
        kafka_topics=["orders=orders-v2"],
        kafka_sources=["orders=orders-source"],
        state_drops=["visits:last:one"],
    )
    assert request_of(params) == make_request(
        "s3://bucket/save",
        "/mnt/rescaled",
        ["6", "visits=3", "a=b=4"],
        ["s3://shared/state"],
        parse_uids(["visits"]),
        ["256", "visits=512"],
        ["objects-hash(a,b)", "visits=lombok(id)"],
        Format.CANONICAL,
        renames=["visits=visitors", "a=b=c"],
        drops=["totals"],
        kafka_offsets="topic,partition,offset\norders,0,5",
        kafka_topics=["orders=orders-v2"],
        kafka_sources=["orders=orders-source"],
        state_drops=["visits:last:one"],
    )


def test_how_deep_the_proof_goes_is_asked_for_apart_from_the_request() -> None:
    assert proof_of(filled(**_PLACES)) is Proof.RECORDS
    assert proof_of(filled(**_PLACES, proof="files")) is Proof.FILES
    assert request_of(filled(**_PLACES, proof="files")) == request_of(filled(**_PLACES))
    assert "proof" not in look_form()


@pytest.mark.parametrize(
    "emptied", ["operators", "key_hashes", "operator_names", "allowed_prefixes", "renames", "drops", "state_drops"]
)
def test_a_field_that_is_emptied_asks_for_nothing(emptied: str) -> None:
    assert request_of(filled(**_PLACES, **{emptied: None})) == request_of(filled(**_PLACES))


def test_empty_lines_are_no_values() -> None:
    given = {"key_hashes": ["lombok(id)"], "operator_names": ["visits"], "allowed_prefixes": ["/shared"]}
    spaced = {name: ["", *lines, ""] for name, lines in given.items()}
    assert request_of(filled(**_PLACES, **spaced)) == request_of(filled(**_PLACES, **given))


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": "savepoint-1a2b"},
        {"source": "ftp://host/save"},
        {"source": ""},
        {"source": None},
        {"target": "rescaled"},
        {"parallelism": 0},
        {"parallelism": 32769},
        {"parallelism": "abc"},
        {"parallelism": "7e2"},
        {"parallelism": "0"},
        {"parallelism": "-1"},
        {"parallelism": True},
        {"parallelism": 1.5},
        {"operators": "visits=3"},
        {"operators": {"visits": 3}},
        {"operators": {"visits": {}}},
        {"operators": {"visits": {"parallelism": 0}}},
        {"operators": {"visits": {"max_parallelism": 32769}}},
        {"operators": {"visits": {"paralelism": 3}}},
        {"operators": {"": {"parallelism": 3}}},
        {"max_parallelism": -1},
        {"format": "native"},
        {"proof": "none"},
        {"approval_minutes": 0},
        {"approval_minutes": 1e12},
        {"key_hashes": ["visits="]},
        {"renames": ["visits"]},
        {"renames": ["visits="]},
        {"allowed_prefixes": ["shared"]},
        {"operator_names": [1]},
        {"connection": 1},
        {"accept_unconditional_publish": "yes"},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_by_the_schema(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError):
        filled(**{**_PLACES, **wrong})


@pytest.mark.parametrize("missing", ["source", "target"])
def test_source_and_target_have_to_be_said(missing: str) -> None:
    with pytest.raises(ParamValidationError):
        filled(**{name: value for name, value in _PLACES.items() if name != missing})


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"target": "s3://bucket/save/inside"}, "the target"),
        ({"key_hashes": ["a=lombok(id)", "a=lombok(name)"]}, "is given twice"),
    ],
)
def test_what_takes_more_than_one_value_is_refused_by_the_first_task(wrong: dict[str, Any], what: str) -> None:
    with pytest.raises(RequestError, match=what):
        request_of(filled(**{**_PLACES, **wrong}))


def test_a_value_without_a_field_is_refused_by_the_first_task() -> None:
    refuse_unknown_fields(filled(**_PLACES), rescale_form())
    with pytest.raises(RequestError, match="the form has no such field") as caught:
        refuse_unknown_fields(filled(**_PLACES, paralelism=6), rescale_form())
    assert caught.value.found == "paralelism"


@pytest.mark.parametrize("name", ["os:system", "visits=os:system", "company.keys.more:of_order"])
def test_a_function_of_a_module_that_is_not_allowed_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    params = filled(**_PLACES, key_hashes=[name])
    with pytest.raises(RequestError, match="may not be used"):
        request_of(params)
    monkeypatch.setenv(ALLOWED_MODULES, "company.keys, company.others")
    with pytest.raises(RequestError, match="may not be used") as caught:
        request_of(params)
    assert caught.value.expected == "one of company.keys, company.others"


def test_a_function_of_a_module_that_is_allowed_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_MODULES, "company.keys")
    names = ["company.keys:of_order", "visits=company.keys:of_visit"]
    assert request_of(filled(**_PLACES, key_hashes=names)).key_hash == {"": names[0], "visits": "company.keys:of_visit"}
