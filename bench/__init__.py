"""Benchmarks, each against its peer in the same run: ``python -m bench`` or ``make bench``.

One module measures one room; ``results`` prints the tables and writes ``bench/results.json``. Nothing here is shipped.
"""
