"""Vectors stored and searched: the catalogue (SQLite) is the truth, everything else a cache."""
