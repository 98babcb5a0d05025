"""The plan: which bytes of which source file become which new state stream, decided once.

A plan is data. The same snapshot and request give the same plan and the same digest; everything after it only
executes it, so the bytes of the result depend on the plan alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from rescale.errors import SnapshotError
from rescale.flink.slot import Slot
from rescale.flink.start import Start, start_of
from rescale.planning.values.new_streams import NewStream
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.snapshot.surgery import NO_SURGERY, Surgery
from rescale.storage.contract import Pin

FORMAT = 11


class SourceFile(NamedTuple):
    """A file of the source in the version that was planned with."""

    uri: str
    pin: Pin


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs besides the source itself; `source` is the directory that holds `_metadata`.

    `part_size` and `chunk_size` are the bytes that a task writes and reads at once. `operators` are those of the source
    after the `surgery`.
    """

    format: int
    source: str
    target: str
    metadata_sha256: str
    checkpoint_id: int
    files: tuple[SourceFile, ...]
    allow_prefixes: tuple[str, ...]
    literals: bytes
    part_size: int
    chunk_size: int
    operators: tuple[OperatorPlan, ...]
    warnings: tuple[str, ...]
    surgery: Surgery = NO_SURGERY

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the plan's JSON, in hex."""
        return hashlib.sha256(plan_to_json(self)).hexdigest()

    @property
    def key_hashes(self) -> dict[str, str]:
        """How keys hash, by operator id, where records get new key groups."""
        rekeyed = [(operator.operator_id, one.key_hash) for operator in self.operators for one in operator.rekeyings]
        return {operator_id: name for operator_id, name in rekeyed if name is not None}

    @property
    def start(self) -> Start:
        """How the job is started from the result."""
        return start_of(
            self.target,
            [(operator.parallelism, operator.max_parallelism) for operator in self.operators],
            [(operator.new_parallelism, operator.new_max_parallelism) for operator in self.operators],
        )

    @property
    def refers(self) -> bool:
        """Whether the result refers to files of the source."""
        return any(database.referred for operator in self.operators for database in operator.databases)

    @cached_property
    def contents(self) -> SnapshotFiles:
        """What the bytes of the source are read with."""
        return SnapshotFiles(tuple((file.uri, file.pin) for file in self.files))

    def file_name(self, operator: OperatorPlan, stream: NewStream) -> str:
        """Of a new stream in the target; it names the plan, so that files of two plans never mix."""
        name = f"{operator.operator_id}-{stream.slot}-{stream.subtask}-{self.digest[:8]}"
        return f"{name}-{stream.local_name}" if stream.local_name else name

    @property
    def bytes_moved(self) -> int:
        return self.bytes_of(*Slot)

    def bytes_of(self, *slots: Slot) -> int:
        """Bytes of the state in `slots`, of all operators."""
        return sum(operator.bytes_of(*slots) for operator in self.operators)


def plan_to_json(plan: Plan) -> bytes:
    return msgspec.json.encode(plan, order="deterministic")


class _Form(msgspec.Struct):
    """What every plan says of itself, whatever else belonged to plans when it was made."""

    format: int


def plan_from_json(document: bytes, path: str) -> Plan:
    """The mirror of `plan_to_json`; `SnapshotError` if it is not a plan of this version."""
    try:
        form = msgspec.json.decode(document, type=_Form).format
        if form != FORMAT:
            raise SnapshotError(
                "a plan of another version",
                path=path,
                expected=FORMAT,
                found=form,
                advice="have planned and carried out by the same version of Rescale (of both images), or plan again",
            )
        return msgspec.json.decode(document, type=Plan)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise SnapshotError(f"not a plan: {error}", path=path) from None
