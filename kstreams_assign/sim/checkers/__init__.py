"""The invariants, a checker for each. Checkers see events and keep records of their own.

A checker never asks the parts that it judges: it relies on what crossed the wire and what was written.
"""
