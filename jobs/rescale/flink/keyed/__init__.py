"""Streams of keyed state: their header, their key groups, canonical and heap framing."""
