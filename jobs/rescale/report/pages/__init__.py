"""What there is to say of a snapshot, a plan, an outcome, as pages."""
