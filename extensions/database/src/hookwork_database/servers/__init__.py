"""Databases behind a network: PostgreSQL, MySQL and MariaDB. What is awaited here is a round trip."""
