"""A self-contained page: its frame, its colours, and the file that it goes to. Other rooms draw its content."""
