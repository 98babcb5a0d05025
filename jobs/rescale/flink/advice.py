"""What to do about a snapshot that is not read: the sentences that many errors end with."""

ANOTHER = "take another snapshot"
CANONICAL = "take a canonical savepoint (flink savepoint --type canonical) and rescale that"
