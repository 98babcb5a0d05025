"""How the state of an operator becomes new streams: one module for each sort of them."""
