"""The JSON-lines peer: passes requests to our assignors and codecs, so that two peers can be compared line by line.

It reads requests, writes answers and measures time; it decides and encodes nothing itself. This module imports
nothing, because the benchmark counts the cost of importing the assignors.
"""
