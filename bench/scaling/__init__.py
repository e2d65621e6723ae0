"""Live scaling as a reader of the output topic sees it: latency and gaps while processes join, leave, drain or fail."""
