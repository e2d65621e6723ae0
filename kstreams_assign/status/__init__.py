"""What a worker shows of itself over HTTP: health, metrics, tasks, and a page. Nothing here changes anything.

The parts of a worker show themselves as ``views``; one ``Status`` is built from those; the server writes it. What must
not live here: the parts (``worker``).
"""
