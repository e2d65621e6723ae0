"""The demonstration: a group of workers on this machine that scales out warm and survives a kill.

What lives here: an application on the public API (``app``, ``worker``), its script (``story``, ``stage``), its pages
(``table``, ``summary``, ``page``) and its proof (``check``). What must not: anything the library needs. Read ``app``
first: it is the example of the API.
"""
