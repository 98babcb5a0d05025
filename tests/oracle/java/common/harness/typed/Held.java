package harness.typed;

import harness.OfScala;
import harness.SerializerInformation;
import java.io.Serializable;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/** Values of many types, with the serializers that Flink itself chooses for them. */
final class Held {
    /** Returns a value for each user. */
    interface Value<T> extends Serializable {
        T of(long user);
    }

    record Kind<T>(TypeInformation<T> type, Value<T> value) implements Serializable {}

    private static final Map<String, Kind<?>> KINDS = Map.ofEntries(
            kind("POJO", TypeInformation.of(Plain.class), Plain::of),
            kind("POJO with a list", TypeInformation.of(WithList.class), WithList::of),
            kind("POJO with a set", TypeInformation.of(WithSet.class), WithSet::of),
            kind("POJO with an ArrayList", TypeInformation.of(WithArrayList.class), WithArrayList::of),
            kind("POJO with a date", TypeInformation.of(WithDate.class), WithDate::of),
            kind("POJO of subclasses", TypeInformation.of(Parcel.class), Parcel::of),
            kind("POJO with subclasses in it", TypeInformation.of(Delivery.class), Delivery::of),
            kind("money", new SerializerInformation<>("Money", new Money.Serializer()), Money::of),
            kind("UUID", TypeInformation.of(UUID.class), user -> new UUID(user, 7)),
            kind("HashMap", Types.GENERIC(HashMap.class), user -> new HashMap<>(Map.of("user", user))),
            kind("generic list", TypeInformation.of(new TypeHint<List<String>>() {}), user -> new ArrayList<>(texts(user))),
            kind("class of a text", TypeInformation.of(OfText.class), OfText::new),
            kind("class of a double", TypeInformation.of(OfDouble.class), OfDouble::new),
            kind("pair", Types.TUPLE(Types.LONG, TypeInformation.of(UUID.class)), user -> Tuple2.of(user, new UUID(user, 7))),
            kind("list", Types.LIST(Types.STRING), Held::texts),
            kind("map", Types.MAP(Types.STRING, Types.LONG), user -> Map.of("user", user)),
            kind("enum", Types.ENUM(TimeUnit.class), user -> TimeUnit.values()[(int) (user % 7)]),
            kind("row", Types.ROW(Types.STRING, Types.LONG), user -> Row.of("user", user)),
            kind("either", Types.EITHER(Types.STRING, Types.LONG), Either::Right),
            kind("option of Scala", OfScala.option(), user -> OfScala.option("user " + user)),
            kind("enum of Scala", OfScala.enumeration(), user -> OfScala.enumeration((int) (user % 7))));

    private Held() {}

    private static <T> Map.Entry<String, Kind<?>> kind(String name, TypeInformation<T> type, Value<T> value) {
        return Map.entry(name, new Kind<>(type, value));
    }

    static Kind<?> kind(String type) {
        Kind<?> kind = KINDS.get(type);
        if (kind == null) {
            throw new IllegalArgumentException("no type of values: " + type);
        }
        return kind;
    }

    private static List<String> texts(long user) {
        return List.of("user", Long.toString(user));
    }

    public static final class Plain {
        public long number;
        public String name;
        public BigDecimal amount;
        public Instant since;
        public double[] shares;

        static Plain of(long user) {
            Plain plain = new Plain();
            plain.number = user;
            plain.name = "user " + user;
            plain.amount = BigDecimal.valueOf(user, 2);
            plain.since = Instant.ofEpochMilli(user);
            plain.shares = new double[] {user / 3.0};
            return plain;
        }

        @Override
        public String toString() {
            return number + " " + name + " " + amount + " " + since + " " + shares[0];
        }
    }

    public static final class WithList {
        public long number;
        public List<String> texts;

        static WithList of(long user) {
            WithList with = new WithList();
            with.number = user;
            with.texts = new ArrayList<>(Held.texts(user));
            return with;
        }

        @Override
        public String toString() {
            return number + " " + texts;
        }
    }

    public static final class WithSet {
        public long number;
        public Set<String> texts;

        static WithSet of(long user) {
            WithSet with = new WithSet();
            with.number = user;
            with.texts = new TreeSet<>(Held.texts(user));
            return with;
        }

        @Override
        public String toString() {
            return number + " " + texts;
        }
    }

    public static final class WithArrayList {
        public long number;
        public ArrayList<String> texts;

        static WithArrayList of(long user) {
            WithArrayList with = new WithArrayList();
            with.number = user;
            with.texts = new ArrayList<>(Held.texts(user));
            return with;
        }

        @Override
        public String toString() {
            return number + " " + texts;
        }
    }

    public static final class WithDate {
        public long number;
        public LocalDate date;

        static WithDate of(long user) {
            WithDate with = new WithDate();
            with.number = user;
            with.date = LocalDate.of(2020, 1 + (int) (user % 12), 3);
            return with;
        }

        @Override
        public String toString() {
            return number + " " + date;
        }
    }

    /** Base class of values that all have one subclass in the first of two subtasks, and another one in the second. */
    public static class Parcel {
        public long number;

        static Parcel of(long user) {
            boolean first = KeyGroupRangeAssignment.assignKeyToParallelOperator(user, 128, 2) == 0;
            Parcel parcel = first ? new Letter() : new Crate();
            parcel.number = user;
            return parcel;
        }

        @Override
        public String toString() {
            return getClass().getSimpleName() + " " + number;
        }
    }

    public static final class Letter extends Parcel {
        public String stamp = "blue";
    }

    public static final class Crate extends Parcel {
        public double weight = 2.5;
    }

    public static class Delivery {
        public long number;
        public Parcel parcel;

        static Delivery of(long user) {
            Delivery delivery = new Delivery();
            delivery.number = user;
            delivery.parcel = Parcel.of(user);
            return delivery;
        }

        @Override
        public String toString() {
            return number + ": " + parcel;
        }
    }

    /** A class without a public constructor, so that Flink does not treat it as a POJO. */
    public static final class OfText {
        private final String text;

        OfText(long user) {
            text = "user " + user;
        }

        private OfText() {
            text = "";
        }

        @Override
        public String toString() {
            return text;
        }
    }

    /** A class like `OfText`. */
    public static final class OfDouble {
        private final double number;

        OfDouble(long user) {
            number = user / 3.0 + 1;
        }

        private OfDouble() {
            number = 0;
        }

        @Override
        public String toString() {
            return Double.toString(number);
        }
    }
}
