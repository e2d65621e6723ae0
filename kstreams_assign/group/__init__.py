"""The group's protocol as pure machines: a leader that decides, a member that follows, and what they say to each other."""
