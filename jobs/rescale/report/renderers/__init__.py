"""A report's pages as text and Markdown."""
