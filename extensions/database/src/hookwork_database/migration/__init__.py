"""Copying sessions from one database into a fresh one (services DB-9)."""
