"""Restoring one changelog: ours beside Java Streams and beside what the libraries below can do (see ``__main__``)."""
