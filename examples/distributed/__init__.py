"""A decoder that several processes train."""
