"""Pages about a finished run: what was proven, where the result is, and how to start the job from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rescale.flink.start import REPLAY_WARNING
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.report.documents import Outcome
from rescale.report.page import Block, Bullets, Page, Table, paragraph, table
from rescale.report.pages.declared import DECLARED, certified_lines, exceptions_clause
from rescale.report.shortening import MOST_OPERATORS, lowest, note_on_rest
from rescale.runstate.certificate import Certificate, CertifiedRecords
from rescale.runstate.places import places_of
from rescale.runstate.publication import Published
from rescale.text.names import quoted
from rescale.text.units import counted, human_bytes


def outcome(plan: Plan, published: Published, warnings: Sequence[str] | None = None) -> Outcome:
    """Return the outcome of a run.

    `warnings` are those of the plan's document. If they are None, the warnings of the plan itself are used, which do
    not cover unused names and the cluster.
    """
    return Outcome(
        target=published.target,
        metadata_sha256=published.sha256,
        already_published=published.was_already_published,
        plan=plan.digest,
        bytes_moved=plan.bytes_moved,
        bytes_compared=published.bytes_compared,
        certificate=places_of(plan).certificate,
        report=places_of(plan).report,
        proof=published.proof.value,
        source=plan.source,
        warnings=tuple(plan.warnings if warnings is None else warnings),
        surgery=plan.surgery,
        start=plan.start.command,
    )


def outcome_page(document: Outcome) -> Page:
    published_text = "was published before" if document.already_published else "is published"
    size, exceptions = human_bytes(document.bytes_compared), exceptions_clause(document.surgery)
    compared_text = "all that changed since the base" if document.proof == Proof.CHANGES else "all state"
    lead = f"{document.target} {published_text}: {compared_text} is accounted for{exceptions}, {size} compared"
    items = [f"certificate: {document.certificate}", f"report: {document.report}"]
    items += _proof_note(document)
    items.append(f"start the job: {document.start}")
    items.append(REPLAY_WARNING)
    return Page((Bullets(lead, tuple(items)),))


def _proof_note(document: Outcome | Certificate) -> list[str]:
    """Return a line about the proof if not every record was compared."""
    method = {
        Proof.FILES: "by files, or by checksums of the store, where possible",
        Proof.CHANGES: "by the changes since the base, together with the base's certificate",
    }.get(Proof(document.proof))
    if method is None:
        return []
    deeper_command = f"rescale validate {quoted(document.source)} {quoted(document.target)}"
    return [f"proof: {method}; to compare every record: {deeper_command}"]


def certificate_page(certificate: Certificate) -> Page:
    """Return the page of a certificate, with its largest operators."""
    operators = certificate.operators
    largest_proofs = lowest(operators, MOST_OPERATORS, lambda proof: -proof.bytes)
    short_certificate = replace(certificate, operators=tuple(largest_proofs))
    operators_text = counted(len(operators), "operator")
    number_omitted = len(operators) - len(short_certificate.operators)
    blocks: list[Block] = [
        paragraph(f"{certificate.verdict}: {operators_text}, {human_bytes(certificate.bytes)} compared"),
        *map(paragraph, _proof_note(certificate)),
        *([Bullets(f"{DECLARED}:", declared_texts)] if (declared_texts := tuple(certified_lines(certificate))) else []),
        proofs_table(short_certificate),
        *note_on_rest(
            number_omitted, "more operator with less state", "more operators with less state", is_in_report=False
        ),
    ]
    blocks += [
        part
        for part in (
            records_table(short_certificate),
            directories_table(short_certificate),
            checksums_table(short_certificate),
        )
        if part.rows
    ]
    return Page(tuple(blocks))


def proofs_table(certificate: Certificate) -> Table:
    """Return the table of the state that was compared and found equal, by operator; zeros are shown as empty cells."""
    return table(
        ("operator", "parallelism", "key groups", "elements", "broadcast copies", "state", "digest"),
        [
            (
                proof.label,
                proof.parallelism,
                *(f"{n:,}" if n else "" for n in (proof.key_groups, proof.elements, proof.broadcast_copies)),
                human_bytes(proof.bytes) if proof.bytes else "",
                proof.digest[:12] if proof.bytes else "",
            )
            for proof in certificate.operators
        ],
    )


def records_table(certificate: Certificate) -> Table:
    """Return the table of records and key hashes, a row for each operator whose records were compared one by one."""
    return table(
        ("operator", "max parallelism", "records", "keys, at least", "keys hash by"),
        [
            (
                proof.label,
                proof.max_parallelism,
                f"{proof.records.compared:,}",
                f"{keys:,}" if (keys := proof.records.distinct_keys_at_least) else "",
                _hash_text(proof.records),
            )
            for proof in certificate.operators
            if proof.records is not None
        ],
    )


def directories_table(certificate: Certificate) -> Table:
    """Return the table of RocksDB directories, a row for each operator with directories made of the source's files.

    The last column counts the files in which range tombstones hide rows of other subtasks.
    """
    return table(
        (
            "operator",
            "directories by files",
            "by records",
            "files referred to",
            "files copied",
            "files with hidden rows",
        ),
        [
            (
                proof.label,
                proof.directories.by_files,
                proof.directories.by_records,
                proof.directories.files_referred_to,
                proof.directories.files_copied,
                proof.directories.deleted_ranges,
            )
            for proof in certificate.operators
            if proof.directories is not None
        ],
    )


def checksums_table(certificate: Certificate) -> Table:
    """Return the table of the state that was compared by checksums of the store, by operator."""
    return table(
        ("operator", "state not read", "the store's checksums"),
        [
            (proof.label, human_bytes(proof.checksums.bytes), ", ".join(proof.checksums.algorithms))
            for proof in certificate.operators
            if proof.checksums is not None
        ],
    )


def _hash_text(records: CertifiedRecords) -> str:
    return f"{records.key_hash} ({records.hash_is})" if records.key_hash else "not known"
