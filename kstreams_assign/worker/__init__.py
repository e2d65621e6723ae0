"""Tasks at work: ``Worker`` and ``GroupMember``. The public names are in ``kstreams_assign``."""
