"""What a finished run says: what was proven, where the result lies, how to start the job from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rescale.names import quoted
from rescale.planning.values.plan import Plan
from rescale.planning.values.proof import Proof
from rescale.report.page import Block, Listed, Page, Table, paragraph, table
from rescale.report.pages.declared import DECLARED, certified_lines, except_what_is_otherwise
from rescale.report.renderers.text import text_of
from rescale.report.shortening import MOST_OPERATORS, first, left_out
from rescale.report.units import counted, human_bytes
from rescale.target.places import places_of
from rescale.target.publication import Published


def outcome(plan: Plan, published: Published, warnings: Sequence[str] | None = None) -> dict[str, Any]:
    """`warnings` are those of whoever has planned; without them the plan's own, which knows of no names or cluster."""
    return {
        "target": published.target,
        "metadata_sha256": published.sha256,
        "already_published": published.already,
        "plan": plan.digest,
        "bytes_moved": plan.bytes_moved,
        "bytes_compared": published.compared,
        "certificate": places_of(plan).certificate,
        "report": places_of(plan).report,
        "proof": published.proof.value,
        "source": plan.source,
        "warnings": list(plan.warnings if warnings is None else warnings),
        "surgery": plan.surgery.document(),
        "start": plan.start.command,
    }


def outcome_text(document: dict[str, Any]) -> str:
    return text_of(outcome_page(document))


def outcome_page(document: dict[str, Any]) -> Page:
    done = "was published before" if document["already_published"] else "is published"
    size, exceptions = human_bytes(document["bytes_compared"]), except_what_is_otherwise(document["surgery"])
    lead = f"{document['target']} {done}: {size} of state, all of it accounted for{exceptions}"
    items = [f"{name}: {document[name]}" for name in ("certificate", "report")]
    items += _by_files(document)
    items.append(f"start the job: {document['start']}")
    return Page((Listed(lead, tuple(items)),))


def _by_files(document: dict[str, Any]) -> list[str]:
    """What is not said of each record, of an outcome or a certificate."""
    if document["proof"] != Proof.FILES:
        return []
    deeper = f"rescale validate {quoted(document['source'])} {quoted(document['target'])}"
    return [f"proof: by files, or by checksums of the store, where these tell; to have every record compared: {deeper}"]


def certificate_text(certificate: dict[str, Any]) -> str:
    return text_of(certificate_page(certificate))


def certificate_page(certificate: dict[str, Any]) -> Page:
    operators = certificate["operators"]
    shown = {**certificate, "operators": first(operators, MOST_OPERATORS, lambda proof: -proof["bytes"])}
    number, left = counted(len(operators), "operator"), len(operators) - len(shown["operators"])
    blocks: list[Block] = [
        paragraph(f"{certificate['verdict']}: {number}, {human_bytes(certificate['bytes'])} compared"),
        *map(paragraph, _by_files(certificate)),
        *([Listed(f"{DECLARED}:", declared)] if (declared := tuple(certified_lines(certificate))) else []),
        proofs_table(shown),
        *left_out(left, "more operator with less state", "more operators with less state", reported=False),
    ]
    blocks += [one for one in (records_table(shown), directories_table(shown), checksums_table(shown)) if one.rows]
    return Page(tuple(blocks))


def proofs_table(certificate: dict[str, Any]) -> Table:
    """What was found equal, an operator a row; what it has none of is left empty."""
    counts = ("key_groups", "elements", "broadcast_copies")
    return table(
        ("operator", "parallelism", "key groups", "elements", "broadcast copies", "state", "digest"),
        [
            (
                proof["label"],
                proof["parallelism"],
                *(f"{proof[name]:,}" if proof[name] else "" for name in counts),
                human_bytes(proof["bytes"]) if proof["bytes"] else "",
                proof["digest"][:12] if proof["bytes"] else "",
            )
            for proof in certificate["operators"]
        ],
    )


def records_table(certificate: dict[str, Any]) -> Table:
    """How keys hash, a row for each operator whose records got new key groups."""
    return table(
        ("operator", "max parallelism", "records", "keys, at least", "keys hash by"),
        [
            (
                proof["label"],
                proof["max_parallelism"],
                f"{proof['records']['compared']:,}",
                f"{keys:,}" if (keys := proof["records"]["distinct_keys_at_least"]) else "",
                _hash(proof["records"]),
            )
            for proof in certificate["operators"]
            if proof["records"] is not None
        ],
    )


def directories_table(certificate: dict[str, Any]) -> Table:
    """What RocksDB directories consist of, a row for each operator that has some which went by their files."""
    return table(
        ("operator", "directories by files", "by records", "files referred to", "files copied", "files that hide rows"),
        [
            (
                proof["label"],
                proof["directories"]["by_files"],
                proof["directories"]["by_records"],
                proof["directories"]["files_referred_to"],
                proof["directories"]["files_copied"],
                proof["directories"]["deleted_ranges"],
            )
            for proof in certificate["operators"]
            if proof["directories"] is not None
        ],
    )


def checksums_table(certificate: dict[str, Any]) -> Table:
    """What was compared by checksums of the store, a row for each operator that has some of it."""
    return table(
        ("operator", "state not read", "the store's checksums"),
        [
            (proof["label"], human_bytes(proof["checksums"]["bytes"]), ", ".join(proof["checksums"]["algorithms"]))
            for proof in certificate["operators"]
            if proof.get("checksums") is not None
        ],
    )


def _hash(records: dict[str, Any]) -> str:
    return f"{records['key_hash']} ({records['hash_is']})" if records["key_hash"] else "not known"
