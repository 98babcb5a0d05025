"""New heap streams, made of sorted blocks of whole entries."""
