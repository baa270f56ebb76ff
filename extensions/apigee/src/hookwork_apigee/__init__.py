"""Models behind an Apigee proxy for Hookwork."""
