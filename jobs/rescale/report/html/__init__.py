"""Pages as HTML: one self-contained file that needs no network and no scripts."""
