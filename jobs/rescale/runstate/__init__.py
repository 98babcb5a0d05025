"""A run's protocol on its target. `states` has the table: which files a run writes when, and what each state allows."""
