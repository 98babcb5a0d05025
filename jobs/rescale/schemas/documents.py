"""The published documents: their types, and the version of each schema.

The version of a schema changes whenever the set of documents that it accepts changes. A test in `tests/schemas`
computes the digest of each schema without its descriptions, and compares it with the digest recorded for its version.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from rescale.doctor.checks import Diagnosis
from rescale.following.round_line import RoundLine
from rescale.insight.file_changes import FileChanges
from rescale.plan.plan import PLAN_FORMAT, Plan
from rescale.planning.match_document import MatchDocument
from rescale.planning.request.kafka_offsets import PrintedOffset
from rescale.report.differences import DiffDocument
from rescale.report.documents import Inspection, Outcome, PlanDocument, Preparation, SmallestKeys, WrittenReport
from rescale.report.step_results import (
    DiffResult,
    FailedResult,
    MovedResult,
    PreparedResult,
    RunResult,
    ValidatedResult,
)
from rescale.runstate.certificate import CertificateDocument
from rescale.runstate.removal import DiscardAnswer
from rescale.text.error_document import ErrorDocument


class PublishedSchema(msgspec.Struct, frozen=True):
    """A document with a schema: its name, the version and the id of the schema, and where users get the document."""

    document: str
    version: int
    id: str
    where: str


class SchemaList(msgspec.Struct, frozen=True):
    """All documents with a schema: the output of `rescale schema` without an argument."""

    schemas: tuple[PublishedSchema, ...]


class PublishedDocument(NamedTuple):
    """A published document, which has one of the `types`; `where` says where users get it."""

    name: str
    version: int
    where: str
    types: tuple[Any, ...]

    @property
    def id(self) -> str:
        """The `$id` of the schema."""
        return f"urn:flink-rescale:schema:{self.name}:{self.version}"


DOCUMENTS = (
    PublishedDocument("inspect", 1, "rescale inspect", (Inspection,)),
    PublishedDocument("kafka-offsets", 1, "rescale inspect --kafka-offsets json", (tuple[PrintedOffset, ...],)),
    PublishedDocument("match", 1, "rescale match", (MatchDocument,)),
    PublishedDocument("plan", 5, "rescale plan, and <target>.rescale/report.json", (PlanDocument,)),
    PublishedDocument("run", 3, "rescale run, and rescale follow --finish", (Outcome,)),
    PublishedDocument("prepare", 1, "rescale run --prepare", (Preparation,)),
    PublishedDocument("follow", 3, "rescale follow, a document a line", (RoundLine,)),
    PublishedDocument(
        "certificate", 4, "rescale validate, and <target>.rescale/certificate.json", (CertificateDocument,)
    ),
    PublishedDocument("diff", 3, "rescale diff", (DiffDocument,)),
    PublishedDocument("file-changes", 1, "rescale diff --by-file", (FileChanges,)),
    PublishedDocument("report", 1, "rescale report", (WrittenReport,)),
    PublishedDocument("discard", 1, "rescale discard", (DiscardAnswer,)),
    PublishedDocument("virtual-keys", 1, "rescale virtual-keys", (SmallestKeys,)),
    PublishedDocument("doctor", 1, "rescale doctor", (Diagnosis,)),
    PublishedDocument("schemas", 1, "rescale schema", (SchemaList,)),
    PublishedDocument("error", 1, "any command that fails or is interrupted", (ErrorDocument,)),
    PublishedDocument("plan-file", PLAN_FORMAT, "<target>.rescale/plan-<digest>.json", (Plan,)),
    PublishedDocument(
        "step-result", 4, "<target>.rescale/result-<step>.json", (MovedResult, ValidatedResult, FailedResult)
    ),
    PublishedDocument("diff-result", 3, "--result of rescale-diff-snapshots", (DiffResult, FailedResult)),
    PublishedDocument("prepare-result", 1, "--result of rescale-prepare-files", (PreparedResult, FailedResult)),
    PublishedDocument("run-result", 1, "--result of rescale-move-and-validate", (RunResult, FailedResult)),
)
"""All published documents; the documents of commands come first."""


def schema_list() -> SchemaList:
    return SchemaList(
        tuple(PublishedSchema(document.name, document.version, document.id, document.where) for document in DOCUMENTS)
    )
