"""Sessions on Google Cloud Spanner for Hookwork."""
