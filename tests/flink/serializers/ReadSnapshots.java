import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.util.Base64;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputViewStreamWrapper;

/** Reads snapshots, one in base64 on each line, and prints how many bytes Flink leaves of each, or why it fails. */
public class ReadSnapshots {

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayInputStream bytes = new ByteArrayInputStream(Base64.getDecoder().decode(line));
            try {
                TypeSerializerSnapshot.readVersionedSnapshot(
                        new DataInputViewStreamWrapper(bytes), ReadSnapshots.class.getClassLoader());
                System.out.println(bytes.available());
            } catch (Exception failure) {
                System.out.println(failure);
            }
        }
    }
}
