"""Tasks at work: ``Worker``, the sidecar, and ``GroupMember``. The public names are in ``kstreams_assign``."""
