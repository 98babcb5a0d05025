"""Small `_metadata` values for tests to start from."""

from __future__ import annotations

from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_PROPERTIES, Metadata, OperatorState
from rescale.flink.metadata.properties import savepoint_properties

OPERATOR_ID = "b83cc60a2550891ae55f6b48bb521019"


def operator(**fields: object) -> OperatorState:
    defaults = {
        "operator_id": OPERATOR_ID,
        "name": "",
        "uid": "",
        "parallelism": 2,
        "max_parallelism": 128,
        "coordinator": None,
        "subtasks": (),
    }
    return OperatorState(**{**defaults, **fields})


def file(*operators: OperatorState, version: int = 4, checkpoint_id: int = 1) -> Metadata:
    properties = savepoint_properties(canonical=True) if version >= FIRST_VERSION_WITH_PROPERTIES else b""
    return Metadata(version, checkpoint_id, (), operators, properties)
