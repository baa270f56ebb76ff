"""Provider hooks of hookwork-inmemory."""
