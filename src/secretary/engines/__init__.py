"""Engines that can be swapped, behind one small protocol each."""
