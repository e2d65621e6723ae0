"""The JSON-lines peer: hands requests to our assignors and codecs, so that any two peers can be compared line by line.

What lives here: reading a request, writing an answer, and timing. What must not: any decision or encoding of its own. This
module imports nothing, because the benchmark counts what the assignors' import costs.
"""
