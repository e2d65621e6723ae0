"""A self-contained page: its frame, its colours, and the file that it goes to. What stands on it is the business of the rooms that draw one."""
