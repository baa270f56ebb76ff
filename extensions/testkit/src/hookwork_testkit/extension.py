"""Provider hooks of hookwork-testkit."""
