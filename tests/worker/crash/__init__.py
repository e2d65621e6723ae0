"""A worker killed at each of its I/O calls, one run a call, and what its successor makes of what is left.

``calls`` counts a process's I/O calls from outside of the product and kills it at one of them; ``points`` says which;
``victim`` is that process; ``stage`` puts topics, state and processes on a real broker; ``checks`` judges what they left, by
readings of its own (``reading``); ``sweep`` records once, then kills once for each point.
"""
