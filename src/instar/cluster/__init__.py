"""Turns on many workers: servers on one PostgreSQL database, of which any takes up a prompt that waits."""
