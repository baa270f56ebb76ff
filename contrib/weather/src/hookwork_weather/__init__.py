"""The running example of Hookwork: read `agent`, then `tools`, then `cities`."""
