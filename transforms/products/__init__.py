"""Products of matrices with what is around them."""
