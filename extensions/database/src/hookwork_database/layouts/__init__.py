"""The table layouts that can be opened (services §4): how events, states and times stand in their columns."""
