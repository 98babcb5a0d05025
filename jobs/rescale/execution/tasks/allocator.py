"""Settings of glibc's allocator for workers, which it reads from the environment when a program starts.

It keeps what a worker frees for the next block of the same size: a fresh one would cost a page fault for every 4 KB. As
measured a tenth of the CPU time, and no more memory up to these bytes.
"""

from __future__ import annotations

ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024),
    "MALLOC_TRIM_THRESHOLD_": str(64 * 1024 * 1024),
}
