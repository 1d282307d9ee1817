"""Outgoing HTTP that cannot be led to private addresses.

Nothing is imported here: settings know the allow list, and need no HTTP for that.
"""
