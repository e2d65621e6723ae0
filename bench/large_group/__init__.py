"""Large groups of ``GroupMember``s on a real broker."""
