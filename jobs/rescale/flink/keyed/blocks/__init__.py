"""Records and blocks in canonical framing: walking, sorting and digesting them."""
