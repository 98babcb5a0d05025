"""Records of canonical key groups, and blocks of records: walking, sorting and digesting them."""
