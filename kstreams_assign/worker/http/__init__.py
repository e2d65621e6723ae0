"""What a worker tells over HTTP: health, metrics, tasks, and a page for people. Nothing here changes anything."""
