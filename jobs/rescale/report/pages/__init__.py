"""Makes the page about a snapshot, a plan, an outcome and more, each from a document of JSON values."""
