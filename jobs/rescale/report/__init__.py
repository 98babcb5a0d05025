"""What people read: pages as values, then text, Markdown, HTML and JSON."""
