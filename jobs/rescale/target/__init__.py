"""A run's protocol on its target. `states` is its table: who writes what when, what it means, and who may go on."""
