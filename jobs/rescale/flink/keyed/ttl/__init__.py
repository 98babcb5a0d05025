"""State with a time to live: times of last access, and values that are left out because of them."""
