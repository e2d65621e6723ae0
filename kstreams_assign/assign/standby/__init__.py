"""Place standbys for ``least_movement``: spread over client tags, within limits, where a replica already is.

``spread`` is the whole; ``table`` counts, ``limits`` gives the bounds, ``fill`` makes the first layout, ``settle``
moves standbys, ``exchanges`` looks for the layout with the least to restore, and ``takeover`` uses those that lie where
an active task goes.
"""
