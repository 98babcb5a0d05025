package harness;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** Random values of types of which keys consist, including rare values. */
final class RandomValues {
    private static final String[] ALPHABET = {
        "a", "Z", "0", " ", "\0", "\u007f", "é", "ß", "日", "\uffff", "😀", "\ud83d"
    };
    private static final int LONGEST = 1 << 16;
    private static final BigInteger[] CONSTANTS = {
        BigInteger.ZERO, BigInteger.ONE, BigInteger.TWO, BigInteger.TEN,
        BigInteger.valueOf(Long.MIN_VALUE), BigInteger.valueOf(Integer.MIN_VALUE), BigInteger.ONE.shiftLeft(32).negate()
    };

    private RandomValues() {}

    static <T> T maybe(Random random, T value) {
        return random.nextInt(4) == 0 ? null : value;
    }

    /** Returns a number of any magnitude. */
    static long number(Random random) {
        return random.nextLong() >> random.nextInt(64);
    }

    static String text(Random random) {
        int size = random.nextInt(500) == 0 ? LONGEST - random.nextInt(2) : random.nextInt(random.nextInt(40) + 1);
        StringBuilder text = new StringBuilder();
        while (text.length() < size) {
            text.append(ALPHABET[random.nextInt(ALPHABET.length)]);
        }
        return text.toString();
    }

    static BigInteger bigInteger(Random random) {
        if (random.nextInt(10) == 0) {
            return CONSTANTS[random.nextInt(CONSTANTS.length)];
        }
        BigInteger number = new BigInteger(random.nextInt(300), random);
        return random.nextBoolean() ? number : number.negate();
    }

    static BigDecimal bigDecimal(Random random) {
        return switch (random.nextInt(10)) {
            case 0 -> List.of(BigDecimal.ZERO, BigDecimal.ONE, BigDecimal.TEN).get(random.nextInt(3));
            case 1 -> new BigDecimal(bigInteger(random), random.nextInt());
            case 2 -> BigDecimal.valueOf(number(random), random.nextInt(40) - 20);
            default -> new BigDecimal(bigInteger(random), random.nextInt(40) - 20);
        };
    }

    static java.sql.Timestamp timestamp(Random random) {
        java.sql.Timestamp timestamp = new java.sql.Timestamp(random.nextLong() >> 16);
        timestamp.setNanos(random.nextInt(1_000_000_000));
        return timestamp;
    }

    static LocalDate date(Random random) {
        return random.nextInt(10) == 0
                ? LocalDate.of(random.nextInt(2_000_000_000) - 1_000_000_000 >> random.nextInt(30), 2, 28)
                : LocalDate.ofEpochDay(random.nextInt(100_000) - 50_000);
    }

    static LocalTime time(Random random) {
        return LocalTime.ofNanoOfDay(random.nextLong(24L * 3600 * 1_000_000_000));
    }

    static Instant instant(Random random) {
        return Instant.ofEpochSecond(random.nextLong() >> 16, random.nextInt(1_000_000_000));
    }

    static byte[] bytes(Random random) {
        byte[] bytes = new byte[random.nextInt(20)];
        random.nextBytes(bytes);
        return bytes;
    }

    static Either<Long, String> either(Random random) {
        return random.nextBoolean() ? Either.Left(number(random)) : Either.Right(text(random));
    }

    static List<String> texts(Random random) {
        List<String> texts = new ArrayList<>();
        for (int left = random.nextInt(4); left > 0; left--) {
            texts.add(maybe(random, text(random)));
        }
        return texts;
    }

    @SafeVarargs
    static <T> List<T> list(Random random, T... elements) {
        List<T> list = new ArrayList<>();
        for (int left = random.nextInt(4); left > 0; left--) {
            list.add(elements[random.nextInt(elements.length)]);
        }
        return list;
    }

    @SuppressWarnings("unchecked")
    static <T extends Tuple> T tuple(Object... fields) {
        Tuple tuple = Tuple.newInstance(fields.length);
        for (int at = 0; at < fields.length; at++) {
            tuple.setField(fields[at], at);
        }
        return (T) tuple;
    }

    /** Returns a row of any kind; each field may be null. */
    static Row row(Random random, Object... fields) {
        Row row = new Row(RowKind.fromByteValue((byte) random.nextInt(4)), fields.length);
        for (int at = 0; at < fields.length; at++) {
            row.setField(at, maybe(random, fields[at]));
        }
        return row;
    }
}
