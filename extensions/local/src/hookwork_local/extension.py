"""Provider hooks of hookwork-local."""
