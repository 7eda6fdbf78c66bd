"""The moves of `fuse-nests`: inline a producer, absorb a producer, append a consumer. Each states its law and says
why not.
"""
