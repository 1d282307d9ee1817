"""Outgoing HTTP that cannot reach private addresses; downloads."""
