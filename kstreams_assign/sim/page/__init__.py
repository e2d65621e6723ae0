"""The comparison of policies as a self-contained page: words, plots, and a timeline of each policy and situation."""
