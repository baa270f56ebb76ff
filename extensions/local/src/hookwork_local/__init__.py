"""Models from GGUF weight files, in process, for Hookwork."""
