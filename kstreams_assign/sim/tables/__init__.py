"""Policies in numbers: what happens to a group (``situations``), what that costs (``measure``), in words from BEST to BAD (``words``)."""
