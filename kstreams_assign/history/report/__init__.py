"""The report: the tables of the history as one self-contained page to look at."""

from kstreams_assign.history.report.write import Summary, report

__all__ = ["Summary", "report"]
