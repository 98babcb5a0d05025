"""Renderers that turn pages into text and Markdown."""
