"""The store of local files, on disks of this machine or in mounted file systems."""
