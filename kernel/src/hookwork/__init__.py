"""The Hookwork microkernel."""
