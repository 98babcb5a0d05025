"""A snapshot as it would be if the job's operators were called otherwise.

Files of state do not say whose they are: only the entry in `_metadata` does, by an id that is hashed of the uid
(`StreamGraphHasherV2`). So an operator with another id is another entry, and all that belongs to it goes along: its
streams, coordinator, finished subtasks and shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_NAMES
from rescale.snapshot.model import Operator, Snapshot


@dataclass(frozen=True)
class Renamed:
    """An operator that gets another id: that of the `uid`, which is "" where only the id is known.

    `label` and `new_label` are what it was called and will be.
    """

    operator_id: str
    label: str
    new_operator_id: str
    new_label: str
    uid: str


@dataclass(frozen=True)
class Surgery:
    """What a result is declared to have otherwise than its source, besides shape and format."""

    renamed: tuple[Renamed, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.renamed)

    @property
    def new_ids(self) -> dict[str, str]:
        """By the old operator id."""
        return {one.operator_id: one.new_operator_id for one in self.renamed}

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {"renamed": [asdict(one) for one in self.renamed]}


NO_SURGERY = Surgery()


def operated(snapshot: Snapshot, surgery: Surgery) -> Snapshot:
    """The snapshot after the surgery; its bytes and files are those of the one before."""
    if not surgery:
        return snapshot
    renamed = {one.operator_id: one for one in surgery.renamed}
    named = snapshot.metadata.version >= FIRST_VERSION_WITH_NAMES
    operators = tuple(_renamed(operator, renamed, named=named) for operator in snapshot.operators)
    metadata = replace(snapshot.metadata, operators=tuple(operator.entry for operator in operators))
    return replace(snapshot, metadata=metadata, operators=operators)


def _renamed(operator: Operator, renamed: Mapping[str, Renamed], *, named: bool) -> Operator:
    """`named`: whether entries hold uids."""
    one = renamed.get(operator.entry.operator_id)
    if one is None:
        return operator
    entry = replace(operator.entry, operator_id=one.new_operator_id, uid=one.uid if named else "")
    return replace(operator, entry=entry, label=one.new_label)
