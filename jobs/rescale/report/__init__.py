"""Pages for users, built as values and rendered as text, Markdown or HTML, and the JSON documents of commands."""
