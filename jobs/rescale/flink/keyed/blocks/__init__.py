"""Records and blocks in canonical framing: walked, sorted, digested."""
