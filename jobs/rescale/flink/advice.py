"""Advice that several errors share: what to do about a snapshot that cannot be read or moved."""

from rescale.text.advice import Advice, mention

ANOTHER = "take another snapshot"
SAVEPOINT = (
    "take a canonical savepoint (flink savepoint --type canonical; a job with asynchronous state must first be started "
    "without it)"
)
"""Flink takes no canonical savepoints of asynchronous state (`StreamOperatorStateHandler`), and no snapshot tells which
state is asynchronous."""

CANONICAL = f"{SAVEPOINT} and rescale that"
MATERIALISED = f"start the job from this snapshot unchanged, then {SAVEPOINT}: it contains the state with all changes"
LET_ALIGN = (
    "if its checkpoints are unaligned, set execution.checkpointing.aligned-checkpoint-timeout: a checkpoint then stays "
    "aligned unless alignment takes longer than that"
)
NOTHING_IN_FLIGHT = (
    "take a savepoint or an aligned checkpoint, which hold no records in flight. If the job no longer runs, start it "
    f"from this checkpoint at its old parallelism first, and then take one; {LET_ALIGN}"
)
"""Flink aligns every savepoint (`CheckpointOptions.forConfig`)."""

CANONICAL_RESULT = Advice("ask for a canonical result (", mention("format", "canonical"), ")")

DIVISORS = "a max parallelism that divides the old one needs no hash of keys"

OLD_STATE = (
    "Flink 1.3 to 1.6 wrote this state, and only state of Flink 1.7 and later is read: start the job from it on a "
    "newer Flink that still restores it (Flink's documentation has a table of savepoint compatibility), take a "
    "savepoint there and rescale that"
)
"""Advice for older versions of `KeyedBackendSerializationProxy` and `OperatorBackendSerializationProxy`."""

WRONG_OFFSETS = (
    "Flink 1.18.0 and 1.18.1 wrote wrong offsets for compressed list state (FLINK-34063): restore the savepoint at its "
    "own parallelism, upgrade Flink, and take another one"
)
