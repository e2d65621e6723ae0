"""Kill a worker at each of its I/O calls, one run a call, and check what its successor makes of the state.

``calls`` counts a process's I/O calls from outside the product and kills it at one of them; ``points`` names that call;
``victim`` is the process; ``stage`` puts topics, state and processes on a real broker; ``checks`` judges the result,
read by ``reading``; ``sweep`` records once, then kills once for each point.
"""
