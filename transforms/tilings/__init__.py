"""How programs on a GPU take the points of a nest, and what each way costs."""
