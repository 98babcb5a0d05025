"""Whether a sample of the keys in a checkpoint excludes every hash that Rescale knows."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from rescale.errors import RescaleError, SnapshotError
from rescale.flink.keys.key_hash import refuse_no_hash
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.key_sample import KeySample, sample_keys
from rescale.snapshot.model import Operator, Snapshot

log = logging.getLogger(__name__)

_NO_KEYS = KeySample(np.empty(0, np.uint8), *(np.empty(0, np.int64) for _ in range(3)))


def refuse_by_sample(checkpoint: Snapshot, operator: Operator, serializer: SerializerSnapshot) -> None:
    """`UnsupportedError` where other keys would change nothing; what cannot be read tells nothing."""
    maximum = operator.entry.max_parallelism
    refuse_no_hash(serializer, *_NO_KEYS, maximum)
    try:
        refuse_no_hash(serializer, *_sample(checkpoint, operator), maximum)
    except SnapshotError as error:
        log.warning("the keys of %s are not read in the checkpoint: %s", operator.label, error.what)


def _sample(checkpoint: Snapshot, operator: Operator) -> KeySample:
    try:
        (looked_through,) = with_tables(replace(checkpoint, operators=(operator,))).operators
        return sample_keys(looked_through, checkpoint.contents)
    except RescaleError as error:
        raise SnapshotError(error.what) from None
