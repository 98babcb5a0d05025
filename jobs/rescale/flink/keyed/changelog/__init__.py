"""Log of a changelog state backend: reader of its changes, and their replay on the materialised state."""
