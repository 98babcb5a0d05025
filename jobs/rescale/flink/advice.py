"""What to do about a snapshot that is not read: the sentences that many errors end with."""

ANOTHER = "take another snapshot"
SAVEPOINT = (
    "take a canonical savepoint (flink savepoint --type canonical, at which a job with asynchronous state fails: start "
    "it without that first)"
)
"""`StreamOperatorStateHandler` has none of asynchronous state, and no snapshot tells which state that is."""

CANONICAL = f"{SAVEPOINT} and rescale that"
MATERIALISED = f"start the job from it once more as it was, and {SAVEPOINT}: there the changes are state like any other"
CANONICAL_RESULT = "ask for a canonical result (--format canonical)"

WRONG_OFFSETS = (
    "Flink 1.18.0 and 1.18.1 wrote wrong offsets for compressed list state (FLINK-34063): restore the savepoint at its "
    "own parallelism, upgrade Flink, and take another one"
)
