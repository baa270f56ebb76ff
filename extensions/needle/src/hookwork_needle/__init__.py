"""A packaged tool-calling model, in process, for Hookwork."""
