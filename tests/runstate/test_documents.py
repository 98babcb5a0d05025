"""Documents beside a target have fixed places, are recognised by their names, and are refused if damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.plan.plan import Plan
from rescale.runstate.documents import load_plan, put_document, read_document, store_plan
from rescale.runstate.places import Places, is_document, places_of, short_digest_in_name
from rescale.text.errors import SnapshotError
from support import snapshots
from support.pipeline import plan_rescale

SOURCE = snapshots.directory("2-finished")


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_rescale(SOURCE, str(tmp_path / "target"), ["3"])


def test_plan_and_other_documents_are_read_back(plan: Plan) -> None:
    store_plan(plan)
    assert load_plan(places_of(plan).plan) == plan
    for page in (b"<p>", b"<b>"):
        put_document(places_of(plan).report, page)
        assert read_document(places_of(plan).report) == page


def test_every_place_beside_a_target_is_recognised_as_a_document() -> None:
    places = Places("s3://bucket/target", "0a" * 32)
    place_names = [name for name, attribute in vars(Places).items() if isinstance(attribute, property)]
    documents = {getattr(places, name) for name in place_names if name not in ("metadata", "staging")}
    documents |= {
        places.written_handles("keyed"),
        places.result("validate"),
        f"{places.staging}/{'0' * 32}-keyed-0-12345678",
    }
    documents.add(places.run_note("0a" * 8))
    assert len(documents) == 15
    assert all(uri.startswith("s3://bucket/target.rescale/") for uri in documents)
    assert all(is_document(places.target, uri) for uri in documents)
    foreign_names = ("notes.txt", "claim.bak", "plan-0a.json", "staging", "sub/claim", "staging/1", ".mine.tmp")
    assert not any(is_document(places.target, f"s3://bucket/target.rescale/{name}") for name in foreign_names)
    assert not is_document(places.target, "s3://bucket/other.rescale/claim")


@pytest.mark.parametrize(
    ("file", "digits"),
    [
        (f"{'0' * 32}-keyed-0-12345678", "12345678"),
        (f"{'0' * 32}-rawoperator-17-12345678-000010.sst", "12345678"),
        (f"{'0' * 32}-keyed-0", None),
        ("_metadata", None),
    ],
)
def test_name_of_a_state_file_gives_the_digits_of_its_plan(file: str, digits: str | None) -> None:
    assert short_digest_in_name(file) == digits


def test_plan_whose_digest_is_not_that_in_its_name_is_refused(plan: Plan) -> None:
    store_plan(plan)
    plan_path = Path(places_of(plan).plan)
    own_path = plan_path.with_name("mine.json")
    own_path.write_bytes(plan_path.read_bytes())
    assert load_plan(str(own_path)) == plan, "a name without a digest says nothing"
    other_path = plan_path.with_name(f"plan-{'0' * 64}.json")
    other_path.write_bytes(plan_path.read_bytes())
    with pytest.raises(SnapshotError, match="not the one in its name") as caught:
        load_plan(str(other_path))
    assert (caught.value.expected, caught.value.found) == ("0" * 64, plan.digest)
