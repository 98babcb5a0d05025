"""Writers of new streams of every kind."""
