package harness;

/** Pseudorandom numbers that depend only on a seed and coordinates (SplitMix64's finalizer). */
public final class Mix {
    private Mix() {}

    public static long of(long seed, long... coordinates) {
        long state = seed * 0x9E3779B97F4A7C15L + 1;
        for (long coordinate : coordinates) {
            state = finish(state + coordinate * 0xD1B54A32D192ED03L + 0x9E3779B97F4A7C15L);
        }
        return state;
    }

    /** Returns a number in [0, bound). */
    public static int below(int bound, long seed, long... coordinates) {
        return (int) Math.floorMod(of(seed, coordinates), (long) bound);
    }

    private static long finish(long value) {
        value = (value ^ (value >>> 30)) * 0xBF58476D1CE4E5B9L;
        value = (value ^ (value >>> 27)) * 0x94D049BB133111EBL;
        return value ^ (value >>> 31);
    }
}
