"""Views, and in which order tensors lie in memory."""
