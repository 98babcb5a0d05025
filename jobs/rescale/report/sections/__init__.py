"""The sections of a report, each from the documents of a plan, a snapshot or a run to blocks of a page."""
