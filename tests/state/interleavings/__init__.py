"""KIP-441's race between assignment and state cleanup, enumerated: every order of every step, not a sample.

``world`` is what one process can be in, and what must never be; ``steps`` is what may come next, by the real mutex and
the real machine of a member; ``planted`` are the same steps with one mistake each; ``search`` walks them. What must not
be here: threads and files (``test_mutex_at_work``).
"""
