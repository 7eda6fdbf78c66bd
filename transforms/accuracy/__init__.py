"""What may be rounded, or approximated, and what need not be."""
