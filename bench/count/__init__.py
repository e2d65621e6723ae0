"""Count per key, the same small application on ours and on its peers."""
