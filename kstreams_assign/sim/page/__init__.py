"""The comparison of policies as one self-contained page: a table of words, plots, and a timeline of every policy in every situation."""
