"""An example agent that tells whether VS Code Remote-SSH can run on this machine."""
