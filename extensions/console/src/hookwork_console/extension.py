"""Provider hooks of hookwork-console."""
