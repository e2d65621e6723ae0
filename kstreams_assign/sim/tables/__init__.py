"""Policies in numbers: the situations of a group, their costs (``measure``), and words from BEST to BAD (``words``)."""
