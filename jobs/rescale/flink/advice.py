"""What to do about a snapshot that is not read: the sentences that many errors end with."""

ANOTHER = "take another snapshot"
CANONICAL = "take a canonical savepoint (flink savepoint --type canonical) and rescale that"
MATERIALISED = (
    "start the job from it once more as it was, and take a canonical savepoint (flink savepoint --type canonical): "
    "there the changes are state like any other"
)
CANONICAL_RESULT = "ask for a canonical result (--format canonical)"

WRONG_OFFSETS = (
    "Flink 1.18.0 and 1.18.1 wrote wrong offsets for compressed list state (FLINK-34063): restore the savepoint at its "
    "own parallelism, upgrade Flink, and take another one"
)
