import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.lang.reflect.Constructor;
import java.math.BigDecimal;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
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
import org.apache.flink.cep.nfa.ComputationState;
import org.apache.flink.cep.nfa.DeweyNumber;
import org.apache.flink.cep.nfa.NFAState;
import org.apache.flink.cep.nfa.NFAStateSerializer;
import org.apache.flink.cep.nfa.sharedbuffer.EventId;
import org.apache.flink.cep.nfa.sharedbuffer.Lockable;
import org.apache.flink.cep.nfa.sharedbuffer.NodeId;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBufferEdge;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBufferNode;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBufferNodeSerializer;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.table.api.dataview.ListView;
import org.apache.flink.table.api.dataview.MapView;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RawValueData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.dataview.ListViewSerializer;
import org.apache.flink.table.dataview.MapViewSerializer;
import org.apache.flink.table.runtime.typeutils.DecimalDataSerializer;
import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.runtime.typeutils.RawValueDataSerializer;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
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
        Object[] both = {TEXT, IntSerializer.INSTANCE};
        String coGrouped = "org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializer";
        printNamed(coGrouped, both, tagged("a", null));
        printNamed(coGrouped, both, tagged(null, 7));
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
        ofTables();
        ofEventProcessing();
    }

    private static void ofTables() throws Exception {
        print(new RawValueDataSerializer<>(TEXT), RawValueData.fromObject("äöü"));
        TreeMap<String, Integer> sorted = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        sorted.putAll(Map.of("a", 1, "B", 2));
        printNamed(
                "org.apache.flink.table.runtime.typeutils.SortedMapSerializer",
                new Object[] {String.CASE_INSENSITIVE_ORDER, TEXT, IntSerializer.INSTANCE},
                sorted);
        printNamed(
                "org.apache.flink.runtime.state.v2.ttl.TtlStateFactory$TtlSerializer",
                new Object[] {LongSerializer.INSTANCE, TEXT},
                make("org.apache.flink.runtime.state.ttl.TtlValue", "a", 7L));
        printNamed("org.apache.flink.table.runtime.operators.sink.SortedLongSerializer", new Object[] {}, -7L);
        String multiset = "org.apache.flink.table.runtime.sequencedmultisetstate.linked.";
        if (isThere(multiset + "Node")) {
            printNamed(multiset + "MetaSqnInfoSerializer", new Object[] {}, make(multiset + "MetaSqnInfo", 1L, 2L));
            printNamed(multiset + "RowSqnInfoSerializer", new Object[] {}, make(multiset + "RowSqnInfo", 1L, 2L));
            Object node = make(multiset + "Node", GenericRowData.of(7L), 1L, null, 2L, null, 3L);
            Constructor<?> ofRows = Class.forName(multiset + "NodeSerializer").getConstructor(TypeSerializer.class);
            printAny((TypeSerializer<?>) ofRows.newInstance(new RowDataSerializer(new BigIntType())), node);
        }
        String bitmap = "org.apache.flink.types.bitmap.Bitmap";
        if (isThere(bitmap)) {
            Object two = Class.forName(bitmap).getMethod("fromArray", int[].class).invoke(null, new int[] {1, 70_000});
            printNamed("org.apache.flink.api.common.typeutils.base.BitmapSerializer", new Object[] {}, two);
        }
    }

    private static void ofEventProcessing() throws Exception {
        EventId event = new EventId(3, 7);
        NodeId node = new NodeId(event, "start");
        DeweyNumber version = DeweyNumber.fromString("1.2.3");
        SharedBufferEdge first = new SharedBufferEdge(null, version);
        SharedBufferNode edges = new SharedBufferNode();
        edges.addEdge(first);
        edges.addEdge(new SharedBufferEdge(node, version));
        print(EventId.EventIdSerializer.INSTANCE, event);
        print(DeweyNumber.DeweyNumberSerializer.INSTANCE, version);
        print(new NodeId.NodeIdSerializer(), node);
        print(new SharedBufferEdge.SharedBufferEdgeSerializer(), first);
        print(new SharedBufferNodeSerializer(), edges);
        print(new Lockable.LockableTypeSerializer<>(TEXT), new Lockable<>("a", 2));
        ComputationState begun = ComputationState.createStartState("start");
        ComputationState going = ComputationState.createState("next", node, version, 5, 6, event);
        print(new NFAStateSerializer(), new NFAState(List.of(begun, going)));
    }

    private static boolean isThere(String name) {
        try {
            Class.forName(name);
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
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

    /** What a window holds of two streams; Flink 2 has moved it. */
    private static Object tagged(Object one, Object two) throws Exception {
        try {
            return make("org.apache.flink.util.TaggedUnion", one, two);
        } catch (ClassNotFoundException old) {
            return make("org.apache.flink.streaming.api.datastream.CoGroupedStreams$TaggedUnion", one, two);
        }
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
