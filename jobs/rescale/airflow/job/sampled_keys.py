"""Check with a sample of a checkpoint's keys whether a known hash fits them."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from rescale.flink.keys.key_hash import refuse_no_hash
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.key_sample import KeySample, sample_keys
from rescale.snapshot.model import Operator, Snapshot
from rescale.text.errors import RescaleError, SnapshotError

log = logging.getLogger(__name__)

_NO_KEYS = KeySample(np.empty(0, np.uint8), *(np.empty(0, np.int64) for _ in range(3)))


def refuse_unknown_key_hash(checkpoint: Snapshot, operator: Operator, serializer: SerializerSnapshot) -> None:
    """Raise `UnsupportedError` if no known hash fits the operator's keys.

    If the keys cannot be read, only log a warning.
    """
    max_parallelism = operator.entry.max_parallelism
    refuse_no_hash(serializer, *_NO_KEYS, max_parallelism)
    try:
        refuse_no_hash(serializer, *_key_sample(checkpoint, operator), max_parallelism)
    except SnapshotError as error:
        log.warning("the keys of %s in the checkpoint cannot be read: %s", operator.label, error.what)


def _key_sample(checkpoint: Snapshot, operator: Operator) -> KeySample:
    try:
        (operator_with_tables,) = with_tables(replace(checkpoint, operators=(operator,))).operators
        return sample_keys(operator_with_tables, checkpoint.contents)
    except RescaleError as error:
        raise SnapshotError(error.what) from None
