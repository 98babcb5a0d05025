"""Pages for people: first as values, then as text, Markdown, HTML and JSON."""
