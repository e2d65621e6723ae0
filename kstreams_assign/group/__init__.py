"""The group's protocol as pure machines: the leader that decides, the members that follow, and their messages."""
