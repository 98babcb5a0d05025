"""Reports of jobs that nobody ran, as a plan's, a run's and a snapshot's would be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from rescale.planning.asked.request import make_request
from rescale.planning.planner import make_plan
from rescale.report.pages.inspection import inspection
from rescale.report.pages.planned import plan_document
from rescale.report.report_document import report_document
from rescale.snapshot.model import Snapshot
from support.jobs import SOURCE, job

PROOF = {"records": None, "directories": None, "elements": 3, "broadcast_copies": 0, "digest": "0123456789abcdef"}

TOOK = {"reshuffle": 9.2, "redistribute": 5.1, "validate": 11.3}


def as_json(document: dict[str, Any]) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return decoded


def snapshot_report(parallelism: int, maximum: int, operators: int = 3) -> dict[str, Any]:
    taken, kafka = job(parallelism, maximum, operators)
    return as_json(report_document(snapshot=inspection(taken, kafka)))


def plan_report(old: tuple[int, int], new: tuple[int, int], operators: int = 3, **known: Any) -> dict[str, Any]:
    """Of a job whose (parallelism, max parallelism) goes from `old` to `new`; `known` is what came of the plan."""
    taken, kafka = job(*old, operators)
    taken = _without_databases(taken)  # which would have to be read for that
    maximum = [] if new[1] == old[1] else [str(new[1])]
    request = make_request(SOURCE, "/state/rescaled", [str(new[0])], max_parallelism=maximum)
    plan = make_plan(taken, request, {operator.operator_id: "known" for operator in taken.operators}, kafka)
    return as_json(report_document(plan=plan_document(plan, taken, kafka), **known))


def proven(document: dict[str, Any]) -> dict[str, Any]:
    """The same plan, carried out."""
    plan = document["plan"]
    certificate = {
        "verdict": "complete",
        "proof": "records",
        "proves": "every key group, list element, union element and broadcast copy of the source is in the result",
        "does_not_prove": None,
        "digests": "sums mod 2^128 of 128-bit XXH3 digests of key groups and elements",
        "source_metadata_sha256": "ab" * 32,
        "candidate_sha256": "cd" * 32,
        "bytes": plan["bytes_moved"],
        "surgery": plan["surgery"],
        "operators": [
            {
                "label": operator["label"],
                "parallelism": operator["new_parallelism"],
                "max_parallelism": operator["new_max_parallelism"],
                "key_groups": operator["new_max_parallelism"] if operator["keyed_bytes"] else 0,
                "bytes": operator["keyed_bytes"] + operator["operator_bytes"],
                **PROOF,
            }
            for operator in plan["operators"]
        ],
    }
    return {**document, "certificate": certificate, "published": True, "took": TOOK}


def _without_databases(taken: Snapshot) -> Snapshot:
    return replace(taken, operators=tuple(operator for operator in taken.operators if not operator.databases))
