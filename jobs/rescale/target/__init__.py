"""A run's protocol on its target: who writes what when."""
