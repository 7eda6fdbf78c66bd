"""From a level to running code."""
