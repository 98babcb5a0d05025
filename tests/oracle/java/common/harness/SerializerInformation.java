package harness;

import java.util.Objects;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;

/** Type information for any serializer, also of keys: for serializers of tables, and unusual key types. */
public final class SerializerInformation<T> extends TypeInformation<T> {
    private static final long serialVersionUID = 1L;

    private final String name;
    private final TypeSerializer<T> serializer;

    public SerializerInformation(String name, TypeSerializer<T> serializer) {
        this.name = name;
        this.serializer = serializer;
    }

    /** Method that Flink calls since 1.19. */
    public TypeSerializer<T> createSerializer(SerializerConfig config) {
        return serializer.duplicate();
    }

    /** Method that Flink 1.x calls; Flink 2.x lacks it. */
    public TypeSerializer<T> createSerializer(ExecutionConfig config) {
        return serializer.duplicate();
    }

    @Override
    public boolean isBasicType() {
        return false;
    }

    @Override
    public boolean isTupleType() {
        return false;
    }

    @Override
    public int getArity() {
        return 1;
    }

    @Override
    public int getTotalFields() {
        return 1;
    }

    @Override
    @SuppressWarnings("unchecked")
    public Class<T> getTypeClass() {
        return (Class<T>) Object.class;
    }

    @Override
    public boolean isKeyType() {
        return true;
    }

    @Override
    public String toString() {
        return name;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof SerializerInformation<?> that
                && name.equals(that.name)
                && serializer.equals(that.serializer);
    }

    @Override
    public int hashCode() {
        return Objects.hash(name, serializer);
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof SerializerInformation<?>;
    }
}
