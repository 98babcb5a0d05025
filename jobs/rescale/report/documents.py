"""The JSON documents that commands print and that reports are made from, as typed values.

The keys of the JSON are the names of the fields; UNSET fields are omitted.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from rescale.insight.cluster_estimate import ClusterReport
from rescale.insight.insight import Insight
from rescale.runstate.certificate import CertificateDocument
from rescale.runstate.follower.rounds import Round
from rescale.snapshot.prospects import ReleaseProspects
from rescale.snapshot.surgery import Surgery
from rescale.text.error_document import ErrorDocument


class DealtState(msgspec.Struct, frozen=True):
    """An operator state: the number of its elements in each subtask, and in each new subtask if there is a plan.

    Copies of broadcast states count like elements. `mode` is the name of a `DistributionMode`.
    """

    state: str
    mode: str
    raw: bool
    elements: int
    bytes: int
    per_subtask: tuple[int, ...]
    new_per_subtask: tuple[int, ...] | UnsetType = UNSET


class KafkaPartition(msgspec.Struct, frozen=True):
    """Position of a Kafka source in a partition.

    `next` is the offset that the source reads next. `stop` is the first offset that it will not read; None if it reads
    on without an end.
    """

    topic: str
    partition: int
    next: int | str
    stop: int | str | None
    subtask: int
    new_subtask: int | UnsetType = UNSET


class KafkaFinding(msgspec.Struct, frozen=True):
    """A remark about the offsets of a Kafka source."""

    name: str
    sentence: str


class KafkaSource(msgspec.Struct, frozen=True):
    """Offsets of a Kafka source by partition, and its number of partitions by subtask; with a plan also by new subtask.

    `not_read` says why the offsets could not be read.
    """

    operator_id: str
    operator: str
    kind: str
    partitions: tuple[KafkaPartition, ...]
    unassigned: tuple[str, ...]
    not_read: str | None
    findings: tuple[KafkaFinding, ...]
    per_subtask: tuple[int, ...]
    new_per_subtask: tuple[int, ...] | UnsetType = UNSET


class InspectedState(msgspec.Struct, frozen=True):
    """A state of an operator.

    `content` lists the types of a keyed state, or the number and size of the elements of an operator state. Only an
    operator state has `bytes`.
    """

    name: str
    type: str
    content: str
    bytes: int | UnsetType = UNSET


class InspectedOperator(msgspec.Struct, frozen=True):
    """An operator of a snapshot; `key` is the type of its keys."""

    operator_id: str
    label: str
    uid: str | None
    name: str | None
    parallelism: int
    max_parallelism: int
    key: str | None
    keyed_bytes: int
    operator_bytes: int
    states: tuple[InspectedState, ...]
    elements: tuple[DealtState, ...]
    remark: str


class Inspection(msgspec.Struct, frozen=True):
    """The answer of `inspect`: what a snapshot contains.

    `taken` is when `_metadata` was written, `missing` are files that are gone, and `unread` has the errors of operators
    whose state cannot be read.
    """

    snapshot: str
    kind: str
    written_by: str
    metadata_version: int
    checkpoint_id: int
    taken: str | None
    files: int
    bytes: int
    missing: tuple[str, ...]
    operators: tuple[InspectedOperator, ...]
    unread: tuple[ErrorDocument, ...]
    kafka: tuple[KafkaSource, ...]
    warnings: tuple[str, ...]
    insight: Insight
    for_flink: ReleaseProspects | None


class SubtaskShare(msgspec.Struct, frozen=True):
    """Key groups and bytes of a new subtask."""

    subtask: int
    key_groups: str
    bytes: int


class PlannedOperator(msgspec.Struct, frozen=True):
    """An operator of a plan: its old and new shape, how keyed state moves (`work`), and bytes of state.

    `evenness` is the keyed bytes of the fullest subtask ÷ the mean of all subtasks, `new_evenness` that of the new
    shape.
    """

    operator_id: str
    label: str
    parallelism: int
    new_parallelism: int
    max_parallelism: int
    new_max_parallelism: int
    work: str
    key_hash: str | None
    keyed_bytes: int
    operator_bytes: int
    evenness: float
    new_evenness: float
    states: tuple[str, ...]
    elements: tuple[DealtState, ...]
    subtasks: tuple[SubtaskShare, ...]

    @property
    def is_changed(self) -> bool:
        """Whether the operator gets a new shape."""
        return (self.parallelism, self.max_parallelism) != (self.new_parallelism, self.new_max_parallelism)


class PlanDocument(msgspec.Struct, frozen=True):
    """The answer of `plan`: a plan without byte ranges, and insight into it.

    `plan` is the digest of the plan. `start` is the command that starts the job from the result; None if no run may
    carry out the plan. `refused` is the error that a run would raise now, because of files in its target. `rounds` are
    the last rounds that a follower of the target made before this plan.
    """

    plan: str
    source: str
    taken: str | None
    target: str
    bytes_moved: int
    operators: tuple[PlannedOperator, ...]
    kafka: tuple[KafkaSource, ...]
    surgery: Surgery
    warnings: tuple[str, ...]
    start: str | None
    insight: Insight
    cluster: ClusterReport | None
    refused: ErrorDocument | UnsetType | None = UNSET
    rounds: tuple[Round, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """The answer of `run`: the published `plan` (its digest), and places of certificate and report."""

    target: str
    metadata_sha256: str
    already_published: bool
    plan: str
    bytes_moved: int
    bytes_compared: int
    certificate: str
    report: str
    proof: str
    source: str
    warnings: tuple[str, ...]
    surgery: Surgery
    start: str


class Preparation(msgspec.Struct, frozen=True):
    """The answer of `run --prepare`: files of the checkpoint `source` that were copied into the target ahead of a run.

    `new_files` and `new_bytes` count what this preparation has copied. `bytes_left` are the bytes that a run from this
    checkpoint would still write.
    """

    target: str
    source: str
    files: int
    bytes: int
    new_files: int
    new_bytes: int
    bytes_left: int


class ReportDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report shows about a snapshot, a plan or a run.

    `report` is the version of this format. Either `snapshot` or `plan` is given. `error` is the error that ended a run,
    and `took` has the duration in seconds of each step that has ended.
    """

    report: int = 1
    snapshot: Inspection | None = None
    plan: PlanDocument | None = None
    certificate: CertificateDocument | None = None
    published: bool = False
    error: ErrorDocument | None = None
    took: dict[str, float] = {}


class WrittenReport(msgspec.Struct, frozen=True):
    """URI of the page that the command `report` wrote, and its size in bytes."""

    report: str
    bytes: int


class SmallestKeys(msgspec.Struct, frozen=True):
    """The answer of `virtual-keys`: the smallest key of every subtask, in order, by the Java type of the key."""

    max_parallelism: int
    parallelism: int
    keys: dict[str, tuple[int, ...]]
