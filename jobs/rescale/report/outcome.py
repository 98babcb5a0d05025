"""What a finished run says: what was proven, where the result lies, how to start the job from it."""

from __future__ import annotations

from typing import Any

from tabulate import tabulate

from rescale.planning.plan import Plan
from rescale.report.units import counted, human_bytes
from rescale.target.places import places_of
from rescale.target.publication import Published


def outcome(plan: Plan, published: Published) -> dict[str, Any]:
    return {
        "target": published.target,
        "metadata_sha256": published.sha256,
        "already_published": published.already,
        "plan": plan.digest,
        "bytes_moved": plan.bytes_moved,
        "certificate": places_of(plan).certificate,
        "warnings": list(plan.warnings),
        "start": plan.start.command,
    }


def outcome_text(document: dict[str, Any]) -> str:
    done = "was published before" if document["already_published"] else "is published"
    return "\n".join(
        [
            f"{document['target']} {done}: {human_bytes(document['bytes_moved'])} of state, all of it accounted for",
            f"  certificate: {document['certificate']}",
            f"  start the job: {document['start']}",
        ]
    )


def certificate_text(certificate: dict[str, Any]) -> str:
    table = tabulate(
        [
            (
                proof["label"],
                proof["parallelism"],
                proof["key_groups"],
                proof["elements"],
                proof["broadcast_copies"],
                human_bytes(proof["bytes"]),
                proof["digest"][:12],
            )
            for proof in certificate["operators"]
        ],
        headers=("operator", "parallelism", "key groups", "elements", "broadcast copies", "state", "digest"),
        disable_numparse=True,
    )
    operators = counted(len(certificate["operators"]), "operator")
    lines = [f"{certificate['verdict']}: {operators}, {human_bytes(certificate['bytes'])} compared", "", table]
    rekeyed = [proof for proof in certificate["operators"] if proof["records"] is not None]
    if rekeyed:
        lines += ["", _records_table(rekeyed)]
    return "\n".join(lines)


def _records_table(proofs: list[dict[str, Any]]) -> str:
    return tabulate(
        [
            (
                proof["label"],
                proof["max_parallelism"],
                proof["records"]["compared"],
                proof["records"]["distinct_keys_at_least"] or "",
                _hash(proof["records"]),
            )
            for proof in proofs
        ],
        headers=("operator", "max parallelism", "records", "keys, at least", "keys hash by"),
        disable_numparse=True,
    )


def _hash(records: dict[str, Any]) -> str:
    return f"{records['key_hash']} ({records['hash_is']})" if records["key_hash"] else "not known"
