"""What to do about a database that is not read."""

ANOTHER = "take another snapshot"
CANONICAL = "take a canonical savepoint (flink savepoint --type canonical) and rescale that"
CANONICAL_RESULT = "ask for a canonical result (--format canonical)"
