"""The demonstration: a group of workers on this machine that scales out warm and survives a crash.

What lives here: an application on the public API (``app``, ``worker``), the script that is played with it (``story``,
``stage``), what is shown (``table``, ``summary``) and what is proven (``check``). What must not: anything the library
needs. Read ``app`` first: it is the example of the API.
"""
