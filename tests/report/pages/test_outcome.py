"""Text of a finished run."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rescale.plan.proof import Proof
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.report.pages.outcome import certificate_page, outcome, outcome_page
from rescale.report.renderers.text import render_text
from rescale.runstate.certificate import Certificate, CertifiedDirectories, CertifiedOperator, CertifiedRecords
from rescale.runstate.places import places_of
from rescale.runstate.publication import Published
from support.pipeline import plan_rescale
from support.readme import fields
from support.snapshots import directory, opened


@pytest.mark.parametrize("proof", Proof)
@pytest.mark.parametrize(("already_published", "sentence"), [(False, "is published"), (True, "was published before")])
def test_outcome_names_the_result_and_the_start_command(already_published: bool, sentence: str, proof: Proof) -> None:
    plan = make_plan(opened("2-source"), make_request(directory("2-source"), "/target", ["3"]))
    document = outcome(plan, Published("/target", "ab" * 32, already_published, proof, 105_678))
    assert document.plan == plan.digest
    assert msgspec.to_builtins(document).keys() == fields("run")
    assert document.metadata_sha256 == "ab" * 32
    text = render_text(outcome_page(document))
    compared_part = "all that changed since the base" if proof is Proof.CHANGES else "all state"
    # The size is not that of the plan, which counts headers.
    assert text.splitlines()[0] == f"/target {sentence}: {compared_part} is accounted for, 106 kB compared"
    assert places_of(plan).certificate in text
    assert document.start in text
    assert (f"rescale validate {plan.source} /target" in text) is (proof is not Proof.RECORDS)


def test_outcome_counts_dropped_operators_and_states() -> None:
    source, published = directory("2-clicks"), Published("/target", "ab" * 32, False, Proof.RECORDS, 1234)
    plan_with_drops = plan_rescale(source, "/target", drops=["visits"], state_drops=["revenue:prices"])
    first_line = render_text(outcome_page(outcome(plan_with_drops, published))).splitlines()[0]
    exceptions = "except what was dropped (1 operator, 1 state)"
    assert first_line.endswith(f": all state is accounted for {exceptions}, 1.23 kB compared")
    first_line = render_text(outcome_page(outcome(plan_rescale(source, "/target"), published))).splitlines()[0]
    assert first_line.endswith(": all state is accounted for, 1.23 kB compared")


def certificate(*operators: CertifiedOperator, proof: Proof = Proof.RECORDS) -> Certificate:
    size = sum(operator.bytes for operator in operators)
    leading_values = ("complete", "everything", None, "sums", "/source", "a", "/target", "b", None)
    return Certificate(*leading_values, (), size, operators, (), "flink run", proof)


COUNTS_OPERATOR = CertifiedOperator("a" * 32, "counts", 3, 128, 32768, 7, 0, 1234, "0123456789abcdef", None)
EMPTY_OPERATOR = CertifiedOperator("b" * 32, "map", 3, 128, 0, 0, 0, 0, "0" * 32, None)


def test_certificate_has_a_row_for_each_operator() -> None:
    text = render_text(certificate_page(certificate(COUNTS_OPERATOR, EMPTY_OPERATOR)))
    assert text.startswith("complete: 2 operators, 1.23 kB compared")
    rows = [line.split() for line in text.splitlines()[-2:]]
    assert rows == [["counts", "3", "32,768", "7", "1.23", "kB", "0123456789ab"], ["map", "3"]]


def test_certificate_shows_the_key_hash_of_compared_records() -> None:
    records_with_tested_hash = CertifiedRecords(17, "lombok(a)", "tested, not known", 5, {})
    records_with_unknown_hash = CertifiedRecords(2, None, None, 0, {})
    operator = replace(EMPTY_OPERATOR, label="counts", max_parallelism=1000)
    text = render_text(
        certificate_page(
            certificate(
                replace(operator, records=records_with_tested_hash),
                replace(operator, records=records_with_unknown_hash),
            )
        )
    )
    assert [line.split() for line in text.splitlines()[-2:]] == [
        ["counts", "1000", "17", "5", "lombok(a)", "(tested,", "not", "known)"],
        ["counts", "1000", "2", "not", "known"],
    ]


def test_certificate_counts_referred_and_copied_files_of_directories() -> None:
    directories = CertifiedDirectories(by_files=3, by_records=1, files_referred_to=12, files_copied=2, deleted_ranges=4)
    text = render_text(certificate_page(certificate(replace(EMPTY_OPERATOR, label="counts", directories=directories))))
    assert text.splitlines()[-1].split() == ["counts", "3", "1", "12", "2", "4"]


def test_certificate_by_files_advises_a_comparison_of_every_record() -> None:
    """The outcome of a run says so, too."""
    assert "proof: " not in render_text(certificate_page(certificate()))
    text = render_text(certificate_page(certificate(proof=Proof.FILES)))
    assert "\nproof: by files, or by checksums of the store, where possible; " in text
    assert "compare every record: rescale validate /source /target\n" in text
