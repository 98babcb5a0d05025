"""Makes pages about snapshots, plans, outcomes and more, each from the document that the JSON output shows."""
