import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.lang.reflect.Constructor;
import java.util.Base64;
import java.util.BitSet;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.MapSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.runtime.generated.GeneratedHashFunction;
import org.apache.flink.table.runtime.generated.GeneratedRecordEqualiser;
import org.apache.flink.table.runtime.generated.HashFunction;
import org.apache.flink.table.runtime.generated.RecordEqualiser;
import org.apache.flink.table.runtime.typeutils.BinaryRowDataSerializer;
import org.apache.flink.table.runtime.typeutils.ExternalSerializer;
import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.TimestampType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.types.LongValue;
import org.apache.flink.types.StringValue;

/**
 * Prints snapshots as Flink writes them, a snapshot's class and its bytes in base64 on each line: of a serializer of
 * each kind, and of the simple snapshot classes that the arguments name. What this Flink does not have is left out.
 */
public class SerializerSnapshots {

    public static class Event {
        public long at;
        public String what;
        public Event before;
    }

    public static class Known extends Event {
        public int more;
    }

    private static final TypeSerializer<?> INT = IntSerializer.INSTANCE;
    private static final TypeSerializer<?> LONG = LongSerializer.INSTANCE;
    private static final TypeSerializer<?> TEXT = StringSerializer.INSTANCE;
    private static final SerializerConfigImpl CONFIG = new SerializerConfigImpl();

    public static void main(String[] simple) throws Exception {
        for (String name : simple) {
            Class<?> known = find(name);
            if (known != null && SimpleTypeSerializerSnapshot.class.isAssignableFrom(known)) {
                print((TypeSerializerSnapshot<?>) known.getDeclaredConstructor().newInstance());
            }
        }
        ofTheCore();
        ofStreams();
        ofTables();
        ofEventProcessing();
        ofScala("org.apache.flink.api.scala.typeutils.");
        ofScala("org.apache.flink.table.api.typeutils.");
        ofAvro();
    }

    private static void ofTheCore() throws Exception {
        String base = "org.apache.flink.api.common.typeutils.base.";
        print(base + "ListSerializer", INT);
        print(base + "SetSerializer", INT);
        print(base + "MapSerializer", TEXT, INT);
        print(base + "GenericArraySerializer", String.class, TEXT);
        print(base + "EnumSerializer", TimeUnit.class);
        String java = "org.apache.flink.api.java.typeutils.runtime.";
        print(java + "EitherSerializer", INT, TEXT);
        print(java + "ValueSerializer", StringValue.class);
        print(java + "CopyableValueSerializer", LongValue.class);
        print(NullableSerializer.wrap(INT, true));
        SerializerConfigImpl config = new SerializerConfigImpl();
        config.registerPojoType(Known.class);
        config.registerKryoType(BitSet.class);
        print(Types.TUPLE(Types.STRING, Types.TUPLE(Types.INT)).createSerializer(config));
        print(Types.ROW(Types.STRING, Types.LONG).createSerializer(config));
        print(TypeInformation.of(Event.class).createSerializer(config));
        print(new GenericTypeInfo<>(BitSet.class).createSerializer(config));
    }

    private static void ofStreams() throws Exception {
        String state = "org.apache.flink.runtime.state.";
        print(state + "ArrayListSerializer", INT);
        print(state + "ttl.TtlStateFactory$TtlSerializer", LONG, TEXT);
        print(state + "v2.ttl.TtlStateFactory$TtlSerializer", LONG, TEXT);
        print(state + "ttl.TtlAwareSerializer", INT);
        String streaming = "org.apache.flink.streaming.";
        print(streaming + "api.operators.TimerSerializer", TEXT, INT);
        print(streaming + "runtime.streamrecord.StreamElementSerializer", INT);
        print(streaming + "api.datastream.CoGroupedStreams$UnionSerializer", INT, TEXT);
        print(streaming + "api.operators.co.IntervalJoinOperator$BufferEntrySerializer", INT);
        print(streaming + "api.functions.sink.TwoPhaseCommitSinkFunction$StateSerializer", INT, TEXT);
        print(streaming + "api.functions.sink.legacy.TwoPhaseCommitSinkFunction$StateSerializer", INT, TEXT);
    }

    private static void ofTables() throws Exception {
        LogicalType array = new ArrayType(new VarCharType(10));
        LogicalType map = new MapType(new BigIntType(), new DecimalType(20, 3));
        RowType row = RowType.of(array, map, new TimestampType(9));
        print(InternalSerializers.create(row));
        print(InternalSerializers.create(array));
        print(InternalSerializers.create(map));
        print(InternalSerializers.create(new DecimalType(20, 3)));
        print(InternalSerializers.create(new TimestampType(9)));
        print(new BinaryRowDataSerializer(3));
        print(ExternalSerializer.of(DataTypes.ROW(DataTypes.FIELD("f", DataTypes.STRING()))));
        String table = "org.apache.flink.table.runtime.typeutils.";
        print(table + "LinkedListSerializer", INT);
        print(table + "RawValueDataSerializer", INT);
        print(table + "WindowKeySerializer", new BinaryRowDataSerializer(1));
        print(table + "SortedMapSerializer", String.CASE_INSENSITIVE_ORDER, TEXT, INT);
        String view = "org.apache.flink.table.dataview.";
        print(view + "NullAwareMapSerializer", TEXT, INT);
        print(view + "MapViewSerializer", new MapSerializer<>(StringSerializer.INSTANCE, IntSerializer.INSTANCE));
        print(view + "ListViewSerializer", new ListSerializer<>(IntSerializer.INSTANCE));
        String multiset = "org.apache.flink.table.runtime.sequencedmultisetstate.linked.";
        print(multiset + "NodeSerializer", new RowDataSerializer(row));
        print(multiset + "MetaSqnInfoSerializer");
        print(multiset + "RowSqnInfoSerializer");
        RecordEqualiser equality = (left, right) -> left.equals(right);
        HashFunction hash = Object::hashCode;
        print(
                multiset + "RowDataKeySerializer",
                new RowDataSerializer(row),
                equality,
                hash,
                new GeneratedRecordEqualiser("Equality", "class Equality {}", new Object[0]),
                new GeneratedHashFunction("Hash", "class Hash {}", new Object[0], new Configuration()));
    }

    private static void ofEventProcessing() throws Exception {
        String cep = "org.apache.flink.cep.nfa.";
        print(cep + "NFAStateSerializer");
        print(cep + "sharedbuffer.NodeId$NodeIdSerializer");
        print(cep + "sharedbuffer.Lockable$LockableTypeSerializer", INT);
        print(cep + "sharedbuffer.SharedBufferEdge$SharedBufferEdgeSerializer");
        print(cep + "sharedbuffer.SharedBufferNodeSerializer");
        print(cep + "sharedbuffer.SharedBufferNode$SharedBufferNodeSerializer");
    }

    /** Serializers in a package of Scala's types: that of Flink 1, or that of the table API in Flink 2. */
    private static void ofScala(String scala) throws Exception {
        Class<?> roundingMode = find("scala.math.BigDecimal$RoundingMode$");
        if (roundingMode == null) {
            return;
        }
        print(scala + "OptionSerializer", INT);
        print(scala + "EitherSerializer", INT, TEXT);
        print(scala + "TrySerializer", INT, new GenericTypeInfo<>(Throwable.class).createSerializer(CONFIG));
        print(scala + "EnumValueSerializer", roundingMode.getField("MODULE$").get(null));
        Object[] pair = {Class.forName("scala.Tuple2"), new TypeSerializer<?>[] {TEXT, INT}};
        print(scala + "ScalaCaseClassSerializer", pair);
        print(scala + "Tuple2CaseClassSerializer", pair);
        String canBuildFrom =
                "implicitly[scala.collection.generic.CanBuildFrom[List[Int], Int, List[Int]]]";
        print(scala + "TraversableSerializer", INT, canBuildFrom);
    }

    private static void ofAvro() throws Exception {
        print("org.apache.flink.formats.avro.typeutils.AvroSerializer", Event.class);
    }

    private static Class<?> find(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException | LinkageError absent) {
            return null;
        }
    }

    /** Prints the snapshot of a serializer that is made by its first constructor which takes these arguments. */
    private static void print(String name, Object... arguments) throws Exception {
        Class<?> serializer = find(name);
        if (serializer == null) {
            return;
        }
        for (Constructor<?> constructor : serializer.getConstructors()) {
            if (takes(constructor.getParameterTypes(), arguments)) {
                print((TypeSerializer<?>) constructor.newInstance(arguments));
                return;
            }
        }
        throw new IllegalArgumentException(name);
    }

    private static boolean takes(Class<?>[] parameters, Object[] arguments) {
        boolean takes = parameters.length == arguments.length;
        for (int i = 0; takes && i < arguments.length; i++) {
            takes = parameters[i].isPrimitive() || arguments[i] == null || parameters[i].isInstance(arguments[i]);
        }
        return takes;
    }

    private static void print(TypeSerializer<?> serializer) throws Exception {
        print(serializer.snapshotConfiguration());
    }

    private static void print(TypeSerializerSnapshot<?> snapshot) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        var view = new DataOutputViewStreamWrapper(new DataOutputStream(out));
        TypeSerializerSnapshot.writeVersionedSnapshot(view, snapshot);
        System.out.println(snapshot.getClass().getName() + " " + Base64.getEncoder().encodeToString(out.toByteArray()));
    }
}
