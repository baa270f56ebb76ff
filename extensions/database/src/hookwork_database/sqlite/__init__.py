"""SQLite: one thread writes, one reads (spec DBP-2)."""
