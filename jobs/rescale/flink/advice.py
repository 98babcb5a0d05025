"""Advice that several errors share: what to do about a snapshot that cannot be read or moved."""

from rescale.text.advice import Advice, mention

TAKE_ANOTHER_SNAPSHOT = "take another snapshot"
TAKE_CANONICAL_SAVEPOINT = (
    "take a canonical savepoint (flink savepoint --type canonical; a job with asynchronous state must first be started "
    "without asynchronous state)"
)
"""Flink refuses canonical savepoints of asynchronous state (`StreamOperatorStateHandler`).

A snapshot does not say whether its state is asynchronous, so this advice always mentions asynchronous state.
"""

RESCALE_CANONICAL_SAVEPOINT = f"{TAKE_CANONICAL_SAVEPOINT} and rescale that savepoint"
MATERIALISE_CHANGELOG = (
    f"start the job from this snapshot unchanged, then {TAKE_CANONICAL_SAVEPOINT}: the savepoint contains the state "
    "with all changes of the log"
)
LET_ALIGN = (
    "if the job takes unaligned checkpoints, set execution.checkpointing.aligned-checkpoint-timeout: a checkpoint then "
    "stays aligned unless its alignment takes longer than this timeout"
)
TAKE_ALIGNED_SNAPSHOT = (
    "take a savepoint or an aligned checkpoint: neither holds records in flight. If the job no longer runs, first "
    f"start it from this checkpoint at its old parallelism; {LET_ALIGN}"
)
"""Advice for a checkpoint with records in flight. Flink aligns every savepoint (`CheckpointOptions.forConfig`)."""

ASK_FOR_CANONICAL_RESULT = Advice("ask for a canonical result (", mention("format", "canonical"), ")")

MOVE_ALL_STATE = (
    "rescale the job without rounds: stop it with a savepoint, and move all state of the savepoint; or start the job "
    "with RocksDB's default for this option, and follow it then"
)

DIVISORS_NEED_NO_HASH = "a max parallelism that divides the old one needs no hash of keys"

REPLACE_SINK = (
    "stop the job with a savepoint, so that no transaction is left to commit, and drop the sink's state; the new job "
    "begins with another Sink"
)

UPGRADE_OLD_STATE = (
    "Flink 1.3 to 1.6 wrote this state, and Rescale reads only state of Flink 1.7 and later: start the job from this "
    "snapshot on a newer Flink that still restores it (Flink's documentation has a table of savepoint compatibility), "
    "take a savepoint with that Flink and rescale the savepoint"
)
"""Advice for old versions of `KeyedBackendSerializationProxy` and `OperatorBackendSerializationProxy`."""

SNAPSHOT_WITHOUT_COMPRESSION = (
    "Flink 1.18.0 and 1.18.1 wrote wrong offsets for compressed list state, which later releases misread "
    "(FLINK-34063): start the job from this snapshot on the Flink that wrote it, at its own parallelism and without "
    "compression (execution.checkpointing.snapshot-compression: false), and take another savepoint"
)
