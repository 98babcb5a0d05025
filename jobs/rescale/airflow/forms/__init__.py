"""Forms of the DAGs: their fields, the values that a user or a DAG gives, and the request that results."""
