"""Files of a file system of this machine, local or mounted: a store over it, and what it is made of."""
