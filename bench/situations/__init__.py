"""The simulator's situations on a real broker, with real processes: ``python -m bench.situations``."""
