package harness;

import static harness.RandomValues.bigDecimal;
import static harness.RandomValues.bigInteger;
import static harness.RandomValues.bytes;
import static harness.RandomValues.date;
import static harness.RandomValues.either;
import static harness.RandomValues.instant;
import static harness.RandomValues.list;
import static harness.RandomValues.maybe;
import static harness.RandomValues.number;
import static harness.RandomValues.row;
import static harness.RandomValues.text;
import static harness.RandomValues.texts;
import static harness.RandomValues.time;
import static harness.RandomValues.timestamp;
import static harness.RandomValues.tuple;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.tuple.Tuple0;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.data.writer.BinaryRowWriter;
import org.apache.flink.table.runtime.operators.window.CountWindow;
import org.apache.flink.table.runtime.typeutils.BinaryRowDataSerializer;
import org.apache.flink.table.runtime.typeutils.ExternalSerializer;
import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;
import org.apache.flink.types.Row;
import org.apache.flink.types.StringValue;

/** Random keys of many types as Flink serializes them, with their hash codes and key groups. */
public final class Keys {
    private static final TypeInformation<byte[]> BYTES = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;

    /** A type of keys: its random values, and its serializer. */
    record Kind<T>(TypeSerializer<T> serializer, Function<Random, T> key) {}

    private final Map<String, Kind<?>> kinds = new LinkedHashMap<>();

    private Keys() {
        simpleKinds();
        ownHashes();
        nestedKinds();
        tableKinds();
        externalKinds();
        namespaces();
    }

    static List<String> types() {
        return List.copyOf(new Keys().kinds.keySet());
    }

    static Kind<?> kind(String type) {
        Kind<?> kind = new Keys().kinds.get(type);
        if (kind == null) {
            throw new IllegalArgumentException("no type of keys: " + type);
        }
        return kind;
    }

    /**
     * Returns `count` keys of `type` by a random `seed`: the serializer's `snapshot` and the `keys` in hexadecimal, the
     * serializer's `length`, the keys' `hashes` and their `groups` of `maxParallelism`.
     */
    static Map<String, Object> of(String type, long seed, int count, int maxParallelism) throws IOException {
        return describe(kind(type), new Random(seed), count, maxParallelism);
    }

    private static <T> Map<String, Object> describe(Kind<T> kind, Random random, int count, int maxParallelism)
            throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        DataOutputViewStreamWrapper view = new DataOutputViewStreamWrapper(out);
        TypeSerializerSnapshot.writeVersionedSnapshot(view, kind.serializer().snapshotConfiguration());
        String snapshot = HexFormat.of().formatHex(out.toByteArray());
        List<String> keys = new ArrayList<>();
        List<Integer> hashes = new ArrayList<>();
        List<Integer> groups = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            T key = kind.key().apply(random);
            out.reset();
            kind.serializer().serialize(key, view);
            view.flush();
            keys.add(HexFormat.of().formatHex(out.toByteArray()));
            hashes.add(key.hashCode());
            groups.add(KeyGroupRangeAssignment.assignToKeyGroup(key, maxParallelism));
        }
        return Map.of(
                "snapshot", snapshot,
                "length", kind.serializer().getLength(),
                "keys", keys,
                "hashes", hashes,
                "groups", groups);
    }

    private <T> void add(String name, TypeInformation<T> type, Function<Random, T> key) {
        kinds.put(name, new Kind<>(type.createSerializer(new SerializerConfigImpl()), key));
    }

    private void simpleKinds() {
        add("Int", Types.INT, Random::nextInt);
        add("Long", Types.LONG, RandomValues::number);
        add("Short", Types.SHORT, random -> (short) random.nextInt());
        add("Byte", Types.BYTE, random -> (byte) random.nextInt());
        add("Char", Types.CHAR, random -> (char) random.nextInt());
        add("Boolean", Types.BOOLEAN, Random::nextBoolean);
        add("Float", Types.FLOAT, random -> Float.intBitsToFloat(
                random.nextInt(20) == 0 ? 0x7f800000 | random.nextInt(3) - 1 : random.nextInt()));
        add("Double", Types.DOUBLE, random -> random.nextInt(20) == 0
                ? List.of(Double.NaN, -0.0, 0.0, Double.NEGATIVE_INFINITY).get(random.nextInt(4))
                : Double.longBitsToDouble(random.nextLong()));
        add("String", Types.STRING, RandomValues::text);
        add("BigInteger", Types.BIG_INT, RandomValues::bigInteger);
        add("BigDecimal", Types.BIG_DEC, RandomValues::bigDecimal);
        add("Date", TypeInformation.of(java.util.Date.class), random -> new java.util.Date(number(random)));
        add("SqlDate", Types.SQL_DATE, random -> new java.sql.Date(number(random)));
        add("SqlTime", Types.SQL_TIME, random -> new java.sql.Time(number(random)));
        add("SqlTimestamp", Types.SQL_TIMESTAMP, RandomValues::timestamp);
        add("LocalDate", Types.LOCAL_DATE, RandomValues::date);
        add("LocalTime", Types.LOCAL_TIME, RandomValues::time);
        add("LocalDateTime", Types.LOCAL_DATE_TIME, random -> LocalDateTime.of(date(random), time(random)));
        add("Instant", Types.INSTANT, RandomValues::instant);
        add("IntValue", TypeInformation.of(IntValue.class), random -> new IntValue(random.nextInt()));
        add("LongValue", TypeInformation.of(LongValue.class), random -> new LongValue(number(random)));
        add("StringValue", TypeInformation.of(StringValue.class), random -> new StringValue(text(random)));
        add("Enum", Types.ENUM(TimeUnit.class), random -> TimeUnit.values()[random.nextInt(7)]);
        add("UUID", TypeInformation.of(UUID.class), random -> new UUID(random.nextLong(), random.nextLong()));
    }

    private void ownHashes() {
        add("POJO by Objects.hash", Types.POJO(OwnHashes.Address.class), OwnHashes.Address::random);
        add("POJO in its own order", Types.POJO(OwnHashes.Seat.class), OwnHashes.Seat::random);
        add("POJO as of Lombok", Types.POJO(OwnHashes.Account.class), OwnHashes.Account::random);
        add("POJO as a record", Types.POJO(OwnHashes.Reading.class), OwnHashes.Reading::random);
        add("POJO by its id", Types.POJO(OwnHashes.Customer.class), OwnHashes.Customer::random);
        add("POJO by HashCodeBuilder", Types.POJO(OwnHashes.Flight.class), OwnHashes.Flight::random);
        add("POJO of POJOs", Types.POJO(OwnHashes.Visit.class), OwnHashes.Visit::random);
        add(
                "POJO in a tuple",
                Types.TUPLE(Types.STRING, Types.POJO(OwnHashes.Address.class)),
                random -> tuple(text(random), OwnHashes.Address.random(random)));
        add("POJO of an enum", Types.POJO(OwnHashes.Timeout.class), OwnHashes.Timeout::random);
        add("POJO of subclasses", Types.POJO(OwnHashes.Badge.class), OwnHashes.Badge::random);
        add("POJO beyond guessing", Types.POJO(OwnHashes.Secret.class), OwnHashes.Secret::random);
    }

    private void nestedKinds() {
        add("Tuple0", new TupleTypeInfo<>(Tuple0.class), random -> Tuple0.INSTANCE);
        add("Tuple1", Types.TUPLE(Types.LONG), random -> tuple(number(random)));
        add("Tuple2", Types.TUPLE(Types.LONG, Types.INT), random -> tuple(number(random), random.nextInt()));
        TypeInformation<?>[] wide = new TypeInformation<?>[Tuple.MAX_ARITY];
        Arrays.fill(wide, Types.STRING);
        add(
                "Tuple25",
                Types.TUPLE(wide),
                random -> tuple(
                        random.ints(Tuple.MAX_ARITY).mapToObj(Integer::toString).toArray()));
        add(
                "Tuple of nulls",
                Types.TUPLE(
                        Types.STRING, Types.BIG_INT, Types.BIG_DEC, Types.SQL_DATE, Types.SQL_TIMESTAMP,
                        Types.LOCAL_DATE, Types.LOCAL_TIME, Types.LOCAL_DATE_TIME, Types.INSTANT),
                random -> tuple(
                        maybe(random, text(random)), maybe(random, bigInteger(random)),
                        maybe(random, bigDecimal(random)), maybe(random, new java.sql.Date(number(random))),
                        maybe(random, timestamp(random)),
                        maybe(random, date(random)), maybe(random, time(random)),
                        maybe(random, LocalDateTime.of(date(random), time(random))), maybe(random, instant(random))));
        add(
                "Nested tuples",
                Types.TUPLE(
                        Types.TUPLE(Types.STRING, Types.EITHER(Types.LONG, Types.STRING)), Types.LIST(Types.STRING)),
                random -> tuple(tuple(text(random), either(random)), texts(random)));
        add(
                "Row",
                Types.ROW(
                        Types.STRING, Types.LONG, Types.INT, Types.BOOLEAN, Types.BIG_DEC, Types.INSTANT, Types.DOUBLE),
                random -> row(
                        random, text(random), number(random), random.nextInt(), random.nextBoolean(),
                        bigDecimal(random), instant(random), random.nextGaussian()));
        add("Row of none", Types.ROW(), random -> row(random));
        add("Row of bytes", Types.ROW(BYTES), random -> row(random, bytes(random)));
        TypeInformation<Row> inner = Types.ROW(Types.STRING, BYTES);
        add(
                "Nested rows",
                Types.ROW(
                        inner,
                        Types.LIST(Types.STRING),
                        Types.LIST(Types.LIST(BYTES)),
                        Types.LIST(inner),
                        Types.TUPLE(Types.LONG, Types.LIST(Types.STRING)),
                        Types.EITHER(Types.LONG, Types.STRING)),
                random -> row(
                        random,
                        row(random, text(random), bytes(random)),
                        texts(random),
                        list(random, list(random, bytes(random))),
                        list(random, row(random, text(random), bytes(random))),
                        tuple(number(random), texts(random)),
                        either(random)));
        add("Either", Types.EITHER(Types.LONG, Types.STRING), RandomValues::either);
        add("List", Types.LIST(Types.STRING), RandomValues::texts);
        add("Map", Types.MAP(Types.STRING, Types.LONG), random -> {
            Map<String, Long> map = new LinkedHashMap<>();
            texts(random).forEach(text -> map.put(String.valueOf(text), maybe(random, number(random))));
            return map;
        });
        nullable("Nullable, padded", Types.TUPLE(Types.LONG), true);
        nullable("Nullable", Types.TUPLE(Types.LONG), false);
    }

    /** Wraps a value that may be null in a list, because a key itself is never null. */
    private void nullable(String name, TypeInformation<Tuple> type, boolean padded) {
        TypeSerializer<Tuple> serializer = type.createSerializer(new SerializerConfigImpl());
        kinds.put(name, new Kind<>(
                new ListSerializer<>(NullableSerializer.wrap(serializer, padded)),
                random -> list(random, RandomValues.<Tuple>maybe(random, tuple(number(random))))));
    }

    private void tableKinds() {
        binaryRow("BinaryRowData of one", 1, (random, writer) -> write(random, writer, 0, Keys::writeNumber));
        binaryRow("BinaryRowData of a text", 1, (random, writer) -> write(random, writer, 0, Keys::writeText));
        binaryRow("BinaryRowData", 6, (random, writer) -> {
            write(random, writer, 0, (r, w, at) -> w.writeInt(at, r.nextInt()));
            write(random, writer, 1, Keys::writeNumber);
            write(random, writer, 2, Keys::writeText);
            write(random, writer, 3, (r, w, at) -> w.writeDecimal(
                    at, DecimalData.fromUnscaledLong(r.nextInt(), 10, 2), 10));
            write(random, writer, 4, (r, w, at) -> w.writeDecimal(
                    at, DecimalData.fromBigDecimal(new BigDecimal(new BigInteger(90, r), 3), 38, 3), 38));
            write(random, writer, 5, (r, w, at) -> w.writeTimestamp(
                    at, TimestampData.fromEpochMillis(r.nextLong() >> 8, r.nextInt(1_000_000)), 9));
        });
        RowType type = RowType.of(new BigIntType(), new VarCharType(VarCharType.MAX_LENGTH));
        kinds.put("RowData", new Kind<>(InternalSerializers.create(type), random -> written(2, random, (r, writer) -> {
            write(r, writer, 0, Keys::writeNumber);
            write(r, writer, 1, Keys::writeText);
        })));
    }

    /** Adds rows as in streams that come from tables. */
    private void externalKinds() {
        DataType row = DataTypes.ROW(DataTypes.BIGINT(), DataTypes.STRING(), DataTypes.DECIMAL(10, 2));
        kinds.put("External row", new Kind<>(ExternalSerializer.<RowData, Row>of(row), random -> Row.of(
                maybe(random, number(random)), maybe(random, "ü" + random.nextInt()),
                maybe(random, new BigDecimal(new BigInteger(30, random), 2)))));
    }

    private void namespaces() {
        kinds.put("VoidNamespace", new Kind<>(VoidNamespaceSerializer.INSTANCE, random -> VoidNamespace.INSTANCE));
        kinds.put("TimeWindow", new Kind<>(
                new TimeWindow.Serializer(), random -> new TimeWindow(random.nextLong(), random.nextLong())));
        kinds.put("GlobalWindow", new Kind<>(new GlobalWindow.Serializer(), random -> GlobalWindow.get()));
        kinds.put("CountWindow", new Kind<>(
                new CountWindow.Serializer(), random -> new CountWindow(random.nextLong())));
        kinds.put("SQL's TimeWindow", new Kind<>(
                new org.apache.flink.table.runtime.operators.window.TimeWindow.Serializer(),
                random -> new org.apache.flink.table.runtime.operators.window.TimeWindow(
                        random.nextLong(), random.nextLong())));
    }

    private void binaryRow(String name, int arity, FillRow fill) {
        kinds.put(name, new Kind<>(new BinaryRowDataSerializer(arity), random -> written(arity, random, fill)));
    }

    private interface FillRow {
        void fill(Random random, BinaryRowWriter writer);
    }

    private interface WriteField {
        void write(Random random, BinaryRowWriter writer, int at);
    }

    private static BinaryRowData written(int arity, Random random, FillRow fill) {
        BinaryRowData row = new BinaryRowData(arity);
        BinaryRowWriter writer = new BinaryRowWriter(row);
        fill.fill(random, writer);
        writer.complete();
        return row;
    }

    private static void write(Random random, BinaryRowWriter writer, int at, WriteField field) {
        if (random.nextInt(5) == 0) {
            writer.setNullAt(at);
        } else {
            field.write(random, writer, at);
        }
    }

    private static void writeNumber(Random random, BinaryRowWriter writer, int at) {
        writer.writeLong(at, number(random));
    }

    private static void writeText(Random random, BinaryRowWriter writer, int at) {
        writer.writeString(at, StringData.fromString(text(random)));
    }
}
