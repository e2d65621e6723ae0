"""Several processes of one application on this machine: started, restarted, shown and ended by one supervisor."""
