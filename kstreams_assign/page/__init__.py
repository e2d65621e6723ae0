"""A self-contained page: its frame and its colours. What stands on it is the business of the rooms that draw one."""
