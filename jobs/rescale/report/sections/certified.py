"""The section about the certificate: what it proves and what it does not, and the digests."""

from __future__ import annotations

from rescale.report.detail import DetailLevel
from rescale.report.page import Block, Bullets, Code, Line, Section, Strong, Table, paragraph
from rescale.report.pages.declared import DECLARED, certified_lines, first_lines
from rescale.report.pages.outcome import checksums_table, directories_table, proofs_table, records_table
from rescale.runstate.certificate import Certificate
from rescale.text.units import counted


def certificate_section(certificate: Certificate, detail: DetailLevel) -> list[Block]:
    """Return the section about the certificate: its sentences, digests and tables."""
    facts: list[Line] = [(Strong("proves: "), certificate.proves)]
    if certificate.does_not_prove:
        facts.append((Strong("does not prove: "), certificate.does_not_prove))
    facts += [(Strong(f"{DECLARED}: "), line) for line in first_lines(certified_lines(certificate), detail.most_rows)]
    facts += [
        (Strong("digests: "), certificate.digests),
        (Strong("_metadata of the source, SHA-256: "), Code(certificate.source_metadata_sha256)),
        (Strong("_metadata of the result, SHA-256: "), Code(certificate.candidate_sha256)),
    ]
    blocks: list[Block] = [Bullets("", tuple(facts))]
    for make_table in (proofs_table, records_table, directories_table, checksums_table):
        blocks += _cut_table(make_table(certificate), 2 * detail.most_rows)
    return [Section("Certificate", tuple(blocks))]


def _cut_table(full_table: Table, limit: int) -> list[Block]:
    if not full_table.rows:
        return []
    if len(full_table.rows) <= limit:
        return [full_table]
    omitted_text = counted(len(full_table.rows) - limit, "operator")
    return [
        Table(full_table.headers, full_table.rows[:limit]),
        paragraph(f"The certificate lists {omitted_text} more."),
    ]
