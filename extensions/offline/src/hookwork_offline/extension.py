"""Provider hooks of hookwork-offline."""
