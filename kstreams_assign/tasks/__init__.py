"""A task's life, its commit and its writes, as tables and values that the worker and a simulator can both drive."""
