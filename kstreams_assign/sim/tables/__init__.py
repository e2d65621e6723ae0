"""Policies in numbers: what happens to a group (``situations``), what that costs (``measure``), in the seed's words (``words``)."""
