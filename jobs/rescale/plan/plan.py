"""The plan: a value that assigns bytes of source files to new state streams.

The same snapshot and request give the same plan and the same digest. All later steps only execute the plan, so the
bytes of the result depend on nothing else. The digest covers all decisions of the plan, and is part of the names of the
result's files, except those of prepared files (`prepared_files`). It does not cover the warnings, so that the next
release may reword a warning and still resume runs of this release.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
from msgspec import UNSET, UnsetType

from rescale.flink.serializers.user_serializer import UserSerializer
from rescale.flink.slot import Slot
from rescale.flink.start import Start, start_of
from rescale.plan.continuation import ContinuedResult
from rescale.plan.mixed_maxima import mixed_maxima
from rescale.plan.new_streams import NewStream
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.prepared_files import SourceFile, prepared_piece, span_digest
from rescale.plan.prepared_name import PREPARED
from rescale.snapshot.moves import Move
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.snapshot.surgery import NO_SURGERY, Surgery
from rescale.storage.contract import Pin, Span
from rescale.storage.locations import contains
from rescale.text.errors import DECODE_ERRORS, SnapshotError

PLAN_FORMAT = 22


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs besides the source; `source` is the directory of `_metadata`.

    `kryo` is the major version of Kryo in the Flink release that wrote the source.

    `serializers` are the users' own serializers that the source needs; the JSON of a plan without them does not have
    the field. A task writes `part_size` bytes and reads `chunk_size` bytes at once. `operators` are the operators of
    the source after the `surgery`. `moves` maps directories that handles name to the directories where the files are
    now. If an earlier result is `continued`, its files and those of its source are among `files`. Of its SST files, the
    new result refers to those in the directory `refers_to`, and has copies of the others. With `prepared`, copied SST
    files have names that do not depend on the plan (`prepared_files`).
    """

    format: int
    source: str
    target: str
    metadata_sha256: str
    checkpoint_id: int
    kryo: int
    files: tuple[SourceFile, ...]
    allow_prefixes: tuple[str, ...]
    literals: bytes
    part_size: int
    chunk_size: int
    operators: tuple[OperatorPlan, ...]
    warnings: tuple[str, ...]
    serializers: tuple[UserSerializer, ...] | UnsetType = UNSET
    surgery: Surgery = NO_SURGERY
    moves: tuple[Move, ...] = ()
    continued: ContinuedResult | None = None
    prepared: bool = False
    refers_to: str | UnsetType = UNSET

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the JSON of the plan without its warnings, in hex."""
        return hashlib.sha256(plan_to_json(replace(self, warnings=()))).hexdigest()

    @property
    def key_hashes(self) -> dict[str, str]:
        """Name of the key hash by operator id, for operators whose keys are hashed."""
        rekeyings = [
            (operator.operator_id, rekeying.key_hash) for operator in self.operators for rekeying in operator.rekeyings
        ]
        return {operator_id: key_hash for operator_id, key_hash in rekeyings if key_hash is not None}

    @property
    def start(self) -> Start:
        """How to start the job from the result."""
        return start_of(
            self.target,
            [(operator.parallelism, operator.max_parallelism) for operator in self.operators],
            [(operator.new_parallelism, operator.new_max_parallelism) for operator in self.operators],
        )._replace(refers=self.refers)

    @property
    def mixed_maxima(self) -> tuple[int, ...]:
        """The new max parallelisms if they differ, which a user must confirm; else () (`mixed_maxima`)."""
        return mixed_maxima((operator.max_parallelism, operator.new_max_parallelism) for operator in self.operators)

    @property
    def refers(self) -> bool:
        """Whether the result refers to files of the source, or of the earlier result that it continues."""
        return self.refers_to is not UNSET or any(
            database.referred for operator in self.operators for database in operator.databases
        )

    def refers_to_base_file(self, table: Span) -> bool:
        """Return whether the result refers to an SST file of the continued result, instead of having a copy."""
        return self.refers_to is not UNSET and table.is_whole and contains(self.refers_to, table.uri)

    @property
    def base_files_referred_to(self) -> dict[str, Pin]:
        """Versions, by URI, of the continued result's SST files to which the new result refers."""
        spans = (Span(file.uri, 0, file.pin.size, file.pin) for file in self.files)
        return {span.uri: span.pin for span in spans if self.refers_to_base_file(span)}

    @cached_property
    def contents(self) -> SnapshotFiles:
        """Reader of the files that the plan names."""
        return SnapshotFiles(tuple((file.uri, file.pin) for file in self.files))

    def file_name(self, operator: OperatorPlan, stream: NewStream) -> str:
        """Return the name of a new stream's file in the target.

        The name of a prepared file contains the file's identity. Any other name contains digits of the plan's digest,
        so that the files of two plans have different names.
        """
        if self.prepared and (piece := prepared_piece(stream)) is not None:
            file = self.files[piece.file or 0]
            return _prepared_name(operator, stream, Span(file.uri, piece.start, piece.length, file.pin))
        name = f"{operator.operator_id}-{stream.slot}-{stream.subtask}-{self.digest[:8]}"
        return f"{name}-{stream.local_name}" if stream.local_name else name

    def base_table_name(self, operator: OperatorPlan, stream: NewStream, table: Span, local_name: str) -> str:
        """Return the name in the target of an SST file that a rekeyed stream takes from the continued result.

        `local_name` is the file's name in the RocksDB directory.
        """
        if self.is_copied_ahead(table):
            return _prepared_name(operator, stream, table)
        return f"{self.file_name(operator, stream)}-base-{local_name}"

    def is_copied_ahead(self, base_table: Span) -> bool:
        """Return whether an SST file of the continued result may be copied before the plan is made.

        Such a file is never stored in `_metadata`, whatever its size.
        """
        return self.prepared and base_table.is_whole and not self.refers_to_base_file(base_table)

    def base_tables(self) -> Iterator[tuple[str, Span]]:
        """Yield (name in the target, span) of the continued result's SST files that may be copied ahead."""
        for operator in self.operators:
            for rekeying in operator.rekeyings:
                for stream, base in zip(rekeying.streams, rekeying.bases, strict=bool(rekeying.bases)):
                    for local_name, extent in base.database.files:
                        span = Span(self.files[extent.file].uri, *extent[1:], self.files[extent.file].pin)
                        if local_name.endswith(".sst") and self.is_copied_ahead(span):
                            yield self.base_table_name(operator, stream, span, local_name), span

    @property
    def bytes_moved(self) -> int:
        """Bytes of all new streams."""
        return self.bytes_of(*Slot)

    @property
    def base_bytes(self) -> int:
        """Bytes of the continued result's directories, which the new result takes over."""
        return sum(rekeying.base_bytes for operator in self.operators for rekeying in operator.rekeyings)

    @property
    def bytes_compared(self) -> int:
        """Bytes of the files that may hold changed keys of operators that continue an earlier result."""
        rekeyings = (rekeying for operator in self.operators for rekeying in operator.rekeyings)
        return sum(change.size for rekeying in rekeyings for change in rekeying.changes)

    def bytes_of(self, *slots: Slot) -> int:
        """Return the bytes of new streams in `slots`, of all operators."""
        return sum(operator.bytes_of(*slots) for operator in self.operators)


def plan_to_json(plan: Plan) -> bytes:
    """Return the plan's document; equal plans give equal bytes."""
    return msgspec.json.encode(plan, order="deterministic")


def _prepared_name(operator: OperatorPlan, stream: NewStream, span: Span) -> str:
    return f"{operator.operator_id}-{stream.slot}-{stream.subtask}-{PREPARED}-{span_digest(span)}.sst"


class _FormatField(msgspec.Struct):
    """The only field of a plan's JSON that every version of the format has."""

    format: int


def plan_from_json(document: bytes, path: str) -> Plan:
    """Return the plan in a document. Raises `SnapshotError` if the document is no plan of this version.

    `path` names the document in the error.
    """
    try:
        plan_format = msgspec.json.decode(document, type=_FormatField).format
        if plan_format != PLAN_FORMAT:
            raise SnapshotError(
                "the plan was made by another version of Rescale",
                path=path,
                expected=PLAN_FORMAT,
                found=plan_format,
                advice="plan and run with the same version of Rescale in all images, or plan again",
            )
        return msgspec.json.decode(document, type=Plan)
    except DECODE_ERRORS as error:
        raise SnapshotError(
            "this file is not a plan",
            path=path,
            expected="a plan-….json, as a run puts it beside its target",
            found=error,
            advice="name such a file, or plan again",
        ) from None
