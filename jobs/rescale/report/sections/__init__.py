"""The sections of a report: each turns the documents of a plan, a snapshot or a run into blocks of a page."""
