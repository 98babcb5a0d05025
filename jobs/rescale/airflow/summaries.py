"""Summaries that tasks output: URIs and short descriptions of at most 8 KiB, however large the snapshot is.

Airflow stores summaries in its database and shows them beside the task. Longer documents are in storage.

The sizes count four different things: `bytes_in_source` is all state of the source, with the headers of streams;
`bytes_to_write` is the size of the new streams, with their headers; `bytes_compared` are key groups and elements that
validation compares, without headers; a step's `bytes` are its part of `bytes_to_write`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import structs

from rescale.airflow.steps.earlier_tasks import Summary
from rescale.plan.plan import Plan
from rescale.report.documents import Inspection, PlanDocument
from rescale.report.pages.declared import certified_lines, declared_lines
from rescale.report.pages.kafka import kafka_line
from rescale.report.shortening import state_bytes
from rescale.runstate.certificate import Certificate
from rescale.runstate.places import places_of
from rescale.snapshot.model import Snapshot

LARGEST_SUMMARY_BYTES = 8 * 1024
"""Size limit of a summary, in bytes of JSON."""

_MOST_LINES = 10
_MOST_CHARACTERS = 200


class OperatorSize(msgspec.Struct):
    """An operator of a snapshot: its label, its parallelism and max parallelism, and the bytes of its state."""

    operator: str
    parallelism_and_max: tuple[int, int]
    bytes_in_source: int


class SnapshotSummary(msgspec.Struct):
    """Summary of a snapshot, with its largest operators."""

    kind: str
    written_by: str
    checkpoint_id: int
    files: int
    metadata_written: str | None
    bytes_in_source: int
    operators: int
    largest_operators: list[OperatorSize]
    kafka: list[str]
    warnings: list[str]


class OperatorChange(msgspec.Struct):
    """An operator of a plan. Pairs are the values before and after the rescale.

    `worst_by_mean` says how uneven the state is: the bytes of the fullest subtask, divided by the mean of all subtasks.
    """

    operator: str
    parallelism: tuple[int, int]
    max_parallelism: tuple[int, int]
    keyed_bytes: int
    operator_bytes: int
    worst_by_mean: tuple[float, float]


class PlanSummary(msgspec.Struct):
    """Summary of a plan. `plan` is its URI; `published` tells whether its result is already published."""

    plan: str
    digest: str
    target: str
    published: bool
    bytes_to_write: int
    operators: int
    operators_changed: int
    largest_operators: list[OperatorChange]
    declared: list[str]
    warnings: list[str]


class CertificateSummary(msgspec.Struct):
    """Summary of a certificate. `certificate` is its URI, and `declared` lists the requested differences."""

    certificate: str
    verdict: str
    proof: str
    candidate_sha256: str
    bytes_compared: int
    operators: int
    declared: list[str]


S = TypeVar("S", SnapshotSummary, PlanSummary, CertificateSummary)


def as_output(summary: SnapshotSummary | PlanSummary | CertificateSummary) -> Summary:
    """Return a summary as the output of a task, in JSON values."""
    output: Summary = msgspec.to_builtins(summary)
    return output


def snapshot_summary(snapshot: Snapshot, inspection: Inspection) -> SnapshotSummary:
    """Return the summary of a snapshot, from its inspection."""
    operators_by_size = sorted(snapshot.operators, key=lambda operator: -operator.bytes)
    return _fit_limit(
        SnapshotSummary(
            kind=inspection.kind,
            written_by=inspection.written_by,
            checkpoint_id=inspection.checkpoint_id,
            files=inspection.files,
            metadata_written=inspection.taken,
            bytes_in_source=inspection.bytes,
            operators=len(operators_by_size),
            largest_operators=[
                OperatorSize(_shorten(operator.label), (operator.parallelism, operator.max_parallelism), operator.bytes)
                for operator in operators_by_size[:_MOST_LINES]
            ],
            kafka=_shorten_list([kafka_line(source) for source in inspection.kafka]),
            warnings=_shorten_list(inspection.warnings),
        )
    )


def plan_summary(plan: Plan, document: PlanDocument, *, is_published: bool) -> PlanSummary:
    """Return the summary of a plan.

    `document` is the plan document that the log shows. The summary takes numbers and warnings from it, so that log and
    summary agree.
    """
    operators_by_size = sorted(document.operators, key=lambda operator: -state_bytes(operator))
    return _fit_limit(
        PlanSummary(
            plan=places_of(plan).plan,
            digest=plan.digest,
            target=plan.target,
            published=is_published,
            bytes_to_write=document.bytes_moved,
            operators=len(operators_by_size),
            operators_changed=sum(operator.is_changed for operator in plan.operators),
            largest_operators=[
                OperatorChange(
                    operator=_shorten(operator.label),
                    parallelism=(operator.parallelism, operator.new_parallelism),
                    max_parallelism=(operator.max_parallelism, operator.new_max_parallelism),
                    keyed_bytes=operator.keyed_bytes,
                    operator_bytes=operator.operator_bytes,
                    worst_by_mean=(round(operator.evenness, 2), round(operator.new_evenness, 2)),
                )
                for operator in operators_by_size[:_MOST_LINES]
            ],
            declared=_shorten_list(declared_lines(document.surgery)),
            warnings=_shorten_list(document.warnings),
        )
    )


def certificate_summary(certificate: Certificate, uri: str) -> CertificateSummary:
    return _fit_limit(
        CertificateSummary(
            certificate=uri,
            verdict=certificate.verdict,
            proof=certificate.proof.value,
            candidate_sha256=certificate.candidate_sha256,
            bytes_compared=certificate.bytes,
            operators=len(certificate.operators),
            declared=_shorten_list(certified_lines(certificate)),
        )
    )


def _fit_limit(summary: S) -> S:
    """Return the summary within the size limit: lines are removed from the ends of its longest lists."""
    while _json_bytes(summary) > LARGEST_SUMMARY_BYTES:
        line_lists = [lines for lines in structs.astuple(summary) if isinstance(lines, list) and lines]
        if not line_lists:
            break
        max(line_lists, key=_json_bytes).pop()
    return summary


def _json_bytes(document: object) -> int:
    return len(json.dumps(msgspec.to_builtins(document)))


def _shorten_list(sentences: Sequence[str]) -> list[str]:
    remaining_note = [f"and {len(sentences) - _MOST_LINES} more"] if len(sentences) > _MOST_LINES else []
    return [*map(_shorten, sentences[:_MOST_LINES]), *remaining_note]


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
