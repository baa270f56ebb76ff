"""Provider hooks of hookwork-spanner."""
