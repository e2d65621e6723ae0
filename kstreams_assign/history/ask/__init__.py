"""Answers to the questions that people ask after an incident: ``kstreams-assign history ask``."""
