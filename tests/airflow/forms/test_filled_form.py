"""A filled form becomes a request; contradictory fields are refused."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.standard.utils.openlineage import _inject_openlineage_parent_info_to_dagrun_conf

from rescale.airflow.forms.filled_form import (
    ALLOWED_MODULES_VARIABLE,
    proof_of,
    refuse_unapproved_drops,
    refuse_unintended_copy,
    refuse_unknown_fields,
    request_of,
    request_sentence,
    trimmed_values,
)
from rescale.airflow.forms.form import plan_only_form, rescale_form
from rescale.plan.proof import Proof
from rescale.planning.request.request import make_request, parse_uids
from rescale.planning.request.result_files import Format
from rescale.planning.request.surgery_request import parse_surgery
from rescale.text.errors import RequestError
from support.filled_forms import PLACES, filled


def test_name_given_twice_is_refused() -> None:
    with pytest.raises(RequestError, match="same name twice") as caught:
        trimmed_values(filled(**PLACES, operators={"visits": {"parallelism": 3}, " visits ": {"parallelism": 2}}))
    assert "' visits '" in str(caught.value.found)


def test_source_and_target_alone_make_a_request() -> None:
    assert request_of(filled(**PLACES)) == make_request("s3://bucket/save", "/mnt/rescaled")


@pytest.mark.parametrize(
    ("values", "is_accepted"),
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
        ({"restarts": ["readers"]}, True),
        ({"same_shape": True}, True),
        ({}, False),
        ({"parallelism": " ", "operators": {}}, False),
        ({"same_shape": True, "parallelism": 6}, False),
    ],
    ids=str,
)
def test_form_without_a_shape_is_refused_unless_it_asks_for_the_same_shape(
    values: dict[str, Any], is_accepted: bool
) -> None:
    params = trimmed_values(filled(**PLACES, **values))
    if is_accepted:
        refuse_unintended_copy(params)
    else:
        with pytest.raises(RequestError, match="the form asks for") as caught:
            refuse_unintended_copy(params)
        assert "Same shape: a self-contained copy" in str(caught.value.advice)


def test_drops_without_an_approval_are_refused() -> None:
    refuse_unapproved_drops(filled(**PLACES))
    refuse_unapproved_drops(filled(**PLACES, drops=["visits"], require_approval=True))
    looked = {name: value for name, value in filled(**PLACES, drops=["visits"]).items() if name in plan_only_form()}
    refuse_unapproved_drops(looked)
    with pytest.raises(RequestError, match="without an approval") as caught:
        refuse_unapproved_drops(filled(**PLACES, drops=["visits"]))
    with pytest.raises(RequestError, match="drop operators or states"):
        refuse_unapproved_drops(filled(**PLACES, state_drops=["visits:count"]))
    with pytest.raises(RequestError, match="would restart operators without an approval"):
        refuse_unapproved_drops(filled(**PLACES, restarts=["readers"]))
    assert (caught.value.found, '"Ask before anything moves"' in str(caught.value.advice)) == ("visits", True)


def test_spaces_around_values_are_ignored() -> None:
    trimmed = {"parallelism": "6", "operators": {"visits": {"parallelism": 3}}, "allowed_prefixes": ["/shared"]}
    spaced = {"parallelism": " 6 ", "operators": {" visits ": {"parallelism": 3}}, "allowed_prefixes": [" /shared "]}
    places = {"source": " s3://bucket/save ", "target": " /mnt/rescaled"}
    assert request_of(filled(**places, **spaced)) == request_of(filled(**PLACES, **trimmed))
    assert trimmed_values(filled(**PLACES, connection=" s3 "))["connection"] == "s3"


@pytest.mark.parametrize(
    ("lines", "parallelism", "maxima"),
    [
        (["visits=6", ""], {"visits": 6}, {}),
        (["visits=6/256"], {"visits": 6}, {"visits": 256}),
        (["visits=6", "visits=/256", " a=b=4 "], {"visits": 6, "a=b": 4}, {"visits": 256}),
    ],
    ids=str,
)
def test_shapes_of_single_operators_are_given_as_lines(
    lines: list[str], parallelism: dict[str, int], maxima: dict[str, int]
) -> None:
    request = request_of(filled(**PLACES, operators=lines))
    assert (request.parallelism, request.max_parallelism) == (parallelism, maxima)


def test_request_is_summarised_in_one_sentence() -> None:
    params = filled(
        **PLACES, parallelism="6", operators={"visits": {"max_parallelism": 512}}, renames=["visits=visitors"]
    )
    assert request_sentence(request_of(params)) == (
        "asked for: parallelism 6, max parallelism unchanged, max parallelism 512 for visits, visits renamed to "
        "visitors; format unchanged"
    )


def test_every_field_arrives_in_the_request() -> None:
    params = filled(
        **PLACES,
        parallelism=6,
        max_parallelism=256,
        operators={"visits": {"parallelism": 3, "max_parallelism": 512}, "a=b": {"parallelism": 4}},
        format="canonical",
        key_hashes=["objects-hash(a,b)", "visits=lombok(id)"],
        operator_names=["visits", "# a remark"],
        allowed_prefixes=["s3://shared/state"],
        moved=["hdfs://n/old=s3://bucket/new"],
        renames=["visits=visitors", " a=b=c"],
        drops=["totals"],
        kafka_offsets="topic,partition,offset\norders,0,5\n",
        kafka_topics=["orders=orders-v2"],
        kafka_sources=["orders=orders-source"],
        state_drops=["visits:last:one"],
        old_rows=["visits:first=30d"],
    )
    assert request_of(params) == make_request(
        "s3://bucket/save",
        "/mnt/rescaled",
        ["6", "visits=3", "a=b=4"],
        max_parallelism=["256", "visits=512"],
        key_hash=["objects-hash(a,b)", "visits=lombok(id)"],
        format=Format.CANONICAL,
        uids=parse_uids(["visits"]),
        allow_prefixes=["s3://shared/state"],
        moved=["hdfs://n/old=s3://bucket/new"],
        surgery=parse_surgery(
            renames=["visits=visitors", "a=b=c"],
            drops=["totals"],
            state_drops=["visits:last:one"],
            ages=["visits:first=30d"],
            kafka_offsets="topic,partition,offset\norders,0,5",
            kafka_topics=["orders=orders-v2"],
            kafka_sources=["orders=orders-source"],
        ),
    )


def test_proof_is_no_part_of_the_request() -> None:
    assert proof_of(filled(**PLACES)) is Proof.RECORDS
    assert proof_of(filled(**PLACES, proof="files")) is Proof.FILES
    assert request_of(filled(**PLACES, proof="files")) == request_of(filled(**PLACES))
    assert "proof" not in plan_only_form()


@pytest.mark.parametrize(
    "emptied",
    ["operators", "key_hashes", "operator_names", "allowed_prefixes", "renames", "drops", "state_drops", "old_rows"],
)
def test_cleared_field_is_no_part_of_the_request(emptied: str) -> None:
    assert request_of(filled(**PLACES, **{emptied: None})) == request_of(filled(**PLACES))


def test_empty_lines_are_ignored() -> None:
    without_empty_lines = {"key_hashes": ["lombok(id)"], "operator_names": ["visits"], "allowed_prefixes": ["/shared"]}
    spaced = {name: ["", *lines, ""] for name, lines in without_empty_lines.items()}
    assert request_of(filled(**PLACES, **spaced)) == request_of(filled(**PLACES, **without_empty_lines))


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"target": "s3://bucket/save/inside"}, "the target"),
        ({"key_hashes": ["a=lombok(id)", "a=lombok(name)"]}, "is given twice"),
    ],
)
def test_contradictory_fields_are_refused_by_the_first_task(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(RequestError, match=what):
        request_of(filled(**{**PLACES, **fields}))


def test_value_without_a_field_is_refused_by_the_first_task() -> None:
    refuse_unknown_fields(filled(**PLACES), rescale_form())
    with pytest.raises(RequestError, match="a value was given for a field that the form does not have") as caught:
        refuse_unknown_fields(filled(**PLACES, paralelism=6), rescale_form())
    assert caught.value.found == "paralelism"


def test_fields_that_airflow_adds_to_a_run_are_accepted() -> None:
    """The provider of OpenLineage adds such fields. A misspelt field of the user is refused beside them."""
    added = _inject_openlineage_parent_info_to_dagrun_conf(
        filled(**PLACES), {"parentRunId": "0190", "parentJobName": "nightly.trigger", "parentJobNamespace": "airflow"}
    )
    assert added.keys() > rescale_form().keys()
    refuse_unknown_fields(trimmed_values(added), rescale_form())
    with pytest.raises(RequestError) as caught:
        refuse_unknown_fields({**added, "paralelism": 6}, rescale_form())
    assert caught.value.found == "paralelism"


@pytest.mark.parametrize("name", ["os:system", "visits=os:system", "company.keys.more:of_order"])
def test_hash_function_of_a_module_that_is_not_allowed_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    params = filled(**PLACES, key_hashes=[name])
    with pytest.raises(RequestError, match="is not allowed for key hashes"):
        request_of(params)
    monkeypatch.setenv(ALLOWED_MODULES_VARIABLE, "company.keys, company.others")
    with pytest.raises(RequestError, match="is not allowed for key hashes") as caught:
        request_of(params)
    assert caught.value.expected == "one of company.keys, company.others"


def test_hash_function_of_an_allowed_module_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_MODULES_VARIABLE, "company.keys")
    names = ["company.keys:of_order", "visits=company.keys:of_visit"]
    assert request_of(filled(**PLACES, key_hashes=names)).key_hash == {"": names[0], "visits": "company.keys:of_visit"}
