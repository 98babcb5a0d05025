package harness.typed;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** A value with a custom serializer, whose snapshot class has its own format. */
record Money(long cents, String currency) {
    static Money of(long user) {
        return new Money(user * 100, user % 2 == 0 ? "EUR" : "CHF");
    }

    static final class Serializer extends TypeSerializerSingleton<Money> {
        private static final long serialVersionUID = 1L;

        @Override
        public boolean isImmutableType() {
            return true;
        }

        @Override
        public Money createInstance() {
            return new Money(0, "");
        }

        @Override
        public Money copy(Money from) {
            return from;
        }

        @Override
        public Money copy(Money from, Money reuse) {
            return from;
        }

        @Override
        public int getLength() {
            return -1;
        }

        @Override
        public void serialize(Money money, DataOutputView target) throws IOException {
            target.writeUTF(money.currency);
            target.writeLong(money.cents);
        }

        @Override
        public Money deserialize(DataInputView source) throws IOException {
            String currency = source.readUTF();
            return new Money(source.readLong(), currency);
        }

        @Override
        public Money deserialize(Money reuse, DataInputView source) throws IOException {
            return deserialize(source);
        }

        @Override
        public void copy(DataInputView source, DataOutputView target) throws IOException {
            serialize(deserialize(source), target);
        }

        @Override
        public TypeSerializerSnapshot<Money> snapshotConfiguration() {
            return new Snapshot();
        }
    }

    /** Public, with a constructor that Flink calls before it reads. */
    public static final class Snapshot implements TypeSerializerSnapshot<Money> {
        private static final String[] CURRENCIES = {"CHF", "EUR", "VALUE_SERIALIZER"};

        @Override
        public int getCurrentVersion() {
            return 7;
        }

        @Override
        public void writeSnapshot(DataOutputView out) throws IOException {
            out.writeInt(CURRENCIES.length);
            for (String currency : CURRENCIES) {
                out.writeUTF(currency);
            }
        }

        @Override
        public void readSnapshot(int version, DataInputView in, ClassLoader loader) throws IOException {
            for (int left = in.readInt(); left > 0; left--) {
                in.readUTF();
            }
        }

        @Override
        public TypeSerializer<Money> restoreSerializer() {
            return new Serializer();
        }

        /** Method that Flink calls since 1.19. */
        public TypeSerializerSchemaCompatibility<Money> resolveSchemaCompatibility(TypeSerializerSnapshot<Money> old) {
            return TypeSerializerSchemaCompatibility.compatibleAsIs();
        }

        /** Method that Flink 1.x calls. */
        public TypeSerializerSchemaCompatibility<Money> resolveSchemaCompatibility(TypeSerializer<Money> serializer) {
            return TypeSerializerSchemaCompatibility.compatibleAsIs();
        }
    }
}
