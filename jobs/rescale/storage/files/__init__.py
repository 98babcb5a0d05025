"""The store of local files, in file systems of this machine or mounted ones, and its parts."""
