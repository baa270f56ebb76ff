"""Memory in SQLite, found by full-text search (services §6.2a)."""
