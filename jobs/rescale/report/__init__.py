"""Builds pages for users, renders them as text, Markdown or HTML, and defines the JSON documents of commands."""
