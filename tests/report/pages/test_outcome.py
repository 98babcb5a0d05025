"""What a finished run says."""

from __future__ import annotations

import pytest

from rescale.planning.asked.request import make_request
from rescale.planning.planner import make_plan
from rescale.planning.values.proof import Proof
from rescale.report.pages.outcome import certificate_text, outcome, outcome_text
from rescale.snapshot.surgery import NO_SURGERY
from rescale.target.places import places_of
from rescale.target.publication import Published
from support.pipeline import plan_rescale
from support.readme import fields
from support.snapshots import directory, opened

NONE = NO_SURGERY.document()

BY_RECORDS = {"verdict": "complete", "proof": "records", "source": "/source", "target": "/target"}


@pytest.mark.parametrize("proof", Proof)
@pytest.mark.parametrize(("already", "said"), [(False, "is published"), (True, "was published before")])
def test_the_outcome_says_where_and_how_to_start(already: bool, said: str, proof: Proof) -> None:
    plan = make_plan(opened("2-source"), make_request(directory("2-source"), "/target", ["3"]))
    document = outcome(plan, Published("/target", "ab" * 32, already, proof, 105_678))
    assert document["plan"] == plan.digest
    assert document.keys() == fields("run")
    assert document["metadata_sha256"] == "ab" * 32
    text = outcome_text(document)
    assert text.splitlines()[0].startswith(f"/target {said}: 106 kB of state, ")  # not what the plan reckons with
    assert places_of(plan).certificate in text
    assert document["start"] in text
    assert (f"rescale validate {plan.source} /target" in text) is (proof is Proof.FILES)


def test_the_outcome_counts_what_was_dropped() -> None:
    source, published = directory("2-clicks"), Published("/target", "ab" * 32, False, Proof.RECORDS, 1234)
    part = plan_rescale(source, "/target", drops=["visits"], state_drops=["revenue:prices"])
    first = outcome_text(outcome(part, published)).splitlines()[0]
    assert first.endswith("of state, all of it accounted for except what was dropped (1 operator, 1 state)")
    first = outcome_text(outcome(plan_rescale(source, "/target"), published)).splitlines()[0]
    assert first.endswith("of state, all of it accounted for")


def test_the_certificate_has_a_row_for_each_operator() -> None:
    proof = {
        "label": "counts",
        "parallelism": 3,
        "key_groups": 32768,
        "elements": 7,
        "broadcast_copies": 0,
        "bytes": 1234,
        "digest": "0123456789abcdef",
        "records": None,
        "directories": None,
    }
    stateless = {**proof, "label": "map", "key_groups": 0, "elements": 0, "bytes": 0, "digest": "0" * 32}
    text = certificate_text({**BY_RECORDS, "bytes": 1234, "operators": [proof, stateless], "surgery": NONE})
    assert text.startswith("complete: 2 operators, 1.23 kB compared")
    rows = [line.split() for line in text.splitlines()[-2:]]
    assert rows == [["counts", "3", "32,768", "7", "1.23", "kB", "0123456789ab"], ["map", "3"]]


def test_the_certificate_tells_of_records_how_their_keys_hash() -> None:
    numbers = dict.fromkeys(("key_groups", "elements", "broadcast_copies", "bytes"), 0)
    proof = {"label": "counts", "parallelism": 3, "max_parallelism": 1000, **numbers, "digest": "", "directories": None}
    tested = {"compared": 17, "key_hash": "lombok(a)", "hash_is": "tested, not known", "distinct_keys_at_least": 5}
    unknown = {"compared": 2, "key_hash": None, "hash_is": None, "distinct_keys_at_least": 0}
    proofs = [{**proof, "records": tested}, {**proof, "records": unknown}]
    text = certificate_text({**BY_RECORDS, "bytes": 0, "operators": proofs, "surgery": NONE})
    assert [line.split() for line in text.splitlines()[-2:]] == [
        ["counts", "1000", "17", "5", "lombok(a)", "(tested,", "not", "known)"],
        ["counts", "1000", "2", "not", "known"],
    ]


def test_the_certificate_tells_of_directories_what_their_files_are() -> None:
    numbers = dict.fromkeys(("parallelism", "key_groups", "elements", "broadcast_copies", "bytes"), 0)
    directories = {"by_files": 3, "by_records": 1, "files_referred_to": 12, "files_copied": 2, "deleted_ranges": 4}
    proof = {"label": "counts", **numbers, "digest": "", "records": None, "directories": directories}
    text = certificate_text({**BY_RECORDS, "bytes": 0, "operators": [proof], "surgery": NONE})
    assert text.splitlines()[-1].split() == ["counts", "3", "1", "12", "2", "4"]


def test_a_certificate_by_files_says_that_not_every_record_was_compared() -> None:
    """As the outcome of a run does."""
    seen = {**BY_RECORDS, "bytes": 0, "operators": [], "surgery": NONE}
    assert "proof: " not in certificate_text(seen)
    told = certificate_text({**seen, "proof": "files"})
    assert "\nproof: by files, or by checksums of the store, where these tell; " in told
    assert "have every record compared: rescale validate /source /target\n" in told
