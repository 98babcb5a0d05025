import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.lang.reflect.Constructor;
import java.math.BigDecimal;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.GenericArraySerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.MapSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.common.typeutils.base.array.BooleanPrimitiveArraySerializer;
import org.apache.flink.api.common.typeutils.base.array.CharPrimitiveArraySerializer;
import org.apache.flink.api.common.typeutils.base.array.DoublePrimitiveArraySerializer;
import org.apache.flink.api.common.typeutils.base.array.FloatPrimitiveArraySerializer;
import org.apache.flink.api.common.typeutils.base.array.IntPrimitiveArraySerializer;
import org.apache.flink.api.common.typeutils.base.array.LongPrimitiveArraySerializer;
import org.apache.flink.api.common.typeutils.base.array.ShortPrimitiveArraySerializer;
import org.apache.flink.api.common.typeutils.base.array.StringArraySerializer;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.table.api.dataview.ListView;
import org.apache.flink.table.api.dataview.MapView;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.dataview.ListViewSerializer;
import org.apache.flink.table.dataview.MapViewSerializer;
import org.apache.flink.table.runtime.typeutils.DecimalDataSerializer;
import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.runtime.typeutils.StringDataSerializer;
import org.apache.flink.table.runtime.typeutils.TimestampDataSerializer;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.MapType;

/**
 * Prints values as Flink writes them: on each line a serializer's snapshot and a value, both in base64. What this Flink
 * does not have is left out.
 */
public class SerializedValues {

    private static final TypeSerializer<String> TEXT = StringSerializer.INSTANCE;

    public static void main(String[] arguments) throws Exception {
        print(new StringArraySerializer(), new String[] {"a", null, "äöü"});
        print(new BooleanPrimitiveArraySerializer(), new boolean[] {true, false});
        print(new ShortPrimitiveArraySerializer(), new short[] {1, 2});
        print(new CharPrimitiveArraySerializer(), new char[] {'a', 'b', 'c'});
        print(new IntPrimitiveArraySerializer(), new int[] {1, 2, 3});
        print(new FloatPrimitiveArraySerializer(), new float[] {1, 2, 3});
        print(new LongPrimitiveArraySerializer(), new long[] {1, 2, 3});
        print(new DoublePrimitiveArraySerializer(), new double[] {});
        print(new GenericArraySerializer<>(String.class, TEXT), new String[] {"a", null, "b"});
        printNamed(
                "org.apache.flink.api.common.typeutils.base.SetSerializer",
                new Object[] {TEXT},
                new HashSet<>(Arrays.asList("a", null, "b")));
        printNamed(
                "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializer",
                new Object[] {LongSerializer.INSTANCE, TEXT},
                make("org.apache.flink.runtime.state.ttl.TtlValue", "a", 7L));
        print(new StreamElementSerializer<>(TEXT), new StreamRecord<>("a", 7));
        print(new StreamElementSerializer<>(TEXT), new StreamRecord<>("a"));
        String join = "org.apache.flink.streaming.api.operators.co.IntervalJoinOperator$BufferEntry";
        printNamed(join + "Serializer", new Object[] {TEXT}, make(join, "a", true));
        print(StringDataSerializer.INSTANCE, StringData.fromString("äöü"));
        print(new DecimalDataSerializer(18, 2), DecimalData.fromBigDecimal(new BigDecimal("1.23"), 18, 2));
        print(new DecimalDataSerializer(19, 2), DecimalData.fromBigDecimal(new BigDecimal("1.23"), 19, 2));
        print(new TimestampDataSerializer(3), TimestampData.fromEpochMillis(7));
        print(new TimestampDataSerializer(4), TimestampData.fromEpochMillis(7, 100));
        printAny(InternalSerializers.create(new ArrayType(new BigIntType())), new GenericArrayData(new long[] {1, 2}));
        printAny(
                InternalSerializers.create(new MapType(new BigIntType(), new BigIntType())),
                new GenericMapData(Map.of(1L, 2L)));
        ListView<String> list = new ListView<>();
        list.setList(List.of("a", "b"));
        print(new ListViewSerializer<>(new ListSerializer<>(TEXT)), list);
        MapView<String, Integer> map = new MapView<>();
        map.setMap(Map.of("a", 1));
        print(new MapViewSerializer<>(new MapSerializer<>(TEXT, IntSerializer.INSTANCE)), map);
    }

    private static Object make(String name, Object... arguments) throws Exception {
        for (Constructor<?> constructor : Class.forName(name).getDeclaredConstructors()) {
            if (constructor.getParameterCount() == arguments.length) {
                constructor.setAccessible(true);
                return constructor.newInstance(arguments);
            }
        }
        throw new IllegalArgumentException(name);
    }

    private static void printNamed(String serializer, Object[] arguments, Object value) throws Exception {
        try {
            printAny((TypeSerializer<?>) make(serializer, arguments), value);
        } catch (ClassNotFoundException absent) {
            return;
        }
    }

    @SuppressWarnings("unchecked")
    private static void printAny(TypeSerializer<?> serializer, Object value) throws Exception {
        print((TypeSerializer<Object>) serializer, value);
    }

    private static <T> void print(TypeSerializer<T> serializer, T value) throws Exception {
        ByteArrayOutputStream snapshot = new ByteArrayOutputStream(), written = new ByteArrayOutputStream();
        TypeSerializerSnapshot.writeVersionedSnapshot(
                new DataOutputViewStreamWrapper(new DataOutputStream(snapshot)), serializer.snapshotConfiguration());
        serializer.serialize(value, new DataOutputViewStreamWrapper(new DataOutputStream(written)));
        System.out.println(text(snapshot) + " " + text(written));
    }

    private static String text(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
