package harness.graphs;

import harness.Job;
import harness.Run;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Emits the numbers of its splits. The enumerator assigns all splits but the last two in the first phase, and those two
 * in the second; its state is the number of the next split to assign. With the switch `idle`, the first reader gets no
 * split in the first phase, learns that there are no more, and finishes.
 */
final class SplitSource implements Source<String, SplitSource.Split, Integer> {
    private static final long serialVersionUID = 1L;
    private static final int NUMBERS = 6;
    private static final int KEPT_BACK = 2;

    private final String run;
    private final int splits;
    private final boolean idle;

    SplitSource(Run run, Job job) {
        this.run = run.id;
        this.idle = job.has("idle");
        this.splits = (int) job.parameter("splits", 9);
    }

    /** Number of splits that readers hold in the first phase. */
    static int assignedAtFirst(Job job) {
        return (int) job.parameter("splits", 9) - KEPT_BACK;
    }

    /** A split, and the next of its numbers to emit. */
    record Split(int number, int next) implements SourceSplit {
        @Override
        public String splitId() {
            return "split-" + number;
        }
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<String, Split> createReader(SourceReaderContext context) {
        return new Reader(Run.of(run), context);
    }

    @Override
    public SplitEnumerator<Split, Integer> createEnumerator(SplitEnumeratorContext<Split> context) {
        return restoreEnumerator(context, 0);
    }

    @Override
    public SplitEnumerator<Split, Integer> restoreEnumerator(SplitEnumeratorContext<Split> context, Integer next) {
        return new Enumerator(context, splits, next, idle ? 1 : 0);
    }

    @Override
    public SimpleVersionedSerializer<Split> getSplitSerializer() {
        return new Serializer<>() {
            @Override
            void write(Split split, DataOutputStream out) throws IOException {
                out.writeInt(split.number());
                out.writeInt(split.next());
            }

            @Override
            Split read(DataInputStream in) throws IOException {
                return new Split(in.readInt(), in.readInt());
            }
        };
    }

    @Override
    public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
        return new Serializer<>() {
            @Override
            void write(Integer next, DataOutputStream out) throws IOException {
                out.writeInt(next);
            }

            @Override
            Integer read(DataInputStream in) throws IOException {
                return in.readInt();
            }
        };
    }

    private abstract static class Serializer<T> implements SimpleVersionedSerializer<T> {
        abstract void write(T value, DataOutputStream out) throws IOException;

        abstract T read(DataInputStream in) throws IOException;

        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(T value) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            write(value, new DataOutputStream(bytes));
            return bytes.toByteArray();
        }

        @Override
        public T deserialize(int version, byte[] bytes) throws IOException {
            return read(new DataInputStream(new ByteArrayInputStream(bytes)));
        }
    }

    /** Emits the first half of each of its splits; in the second phase the second half, and the splits it asks for. */
    private static final class Reader implements SourceReader<String, Split> {
        private final Run run;
        private final SourceReaderContext context;
        private final Deque<Split> active = new ArrayDeque<>();
        private final List<Split> paused = new ArrayList<>();
        private boolean asked;
        private boolean noMore;
        private CompletableFuture<Void> available = new CompletableFuture<>();

        Reader(Run run, SourceReaderContext context) {
            this.run = run;
            this.context = context;
        }

        @Override
        public void start() {
            run.inSecondPhase(this::wake);
        }

        @Override
        public InputStatus pollNext(ReaderOutput<String> output) {
            boolean second = run.isInSecondPhase();
            if (second) {
                active.addAll(paused);
                paused.clear();
            }
            Split split = active.poll();
            if (split == null) {
                return nothing(second);
            }
            if (split.next() == NUMBERS / 2 && !second) {
                paused.add(split);
                run.emitted();
            } else if (split.next() < NUMBERS) {
                output.collect(split.splitId() + " #" + split.next());
                active.addFirst(new Split(split.number(), split.next() + 1));
            }
            return InputStatus.MORE_AVAILABLE;
        }

        private InputStatus nothing(boolean second) {
            if (noMore && paused.isEmpty()) {
                return InputStatus.END_OF_INPUT;
            }
            if (second && !asked) {
                asked = true;
                context.sendSplitRequest();
            }
            sleep(second);
            return InputStatus.NOTHING_AVAILABLE;
        }

        private synchronized void sleep(boolean second) {
            if (available.isDone()) {
                available = new CompletableFuture<>();
            }
            if (!second && run.isInSecondPhase()) {
                available.complete(null);
            }
        }

        private synchronized void wake() {
            available.complete(null);
        }

        @Override
        public List<Split> snapshotState(long checkpoint) {
            List<Split> splits = new ArrayList<>(active);
            splits.addAll(paused);
            return splits;
        }

        @Override
        public synchronized CompletableFuture<Void> isAvailable() {
            return available;
        }

        @Override
        public void addSplits(List<Split> splits) {
            asked = false;
            active.addAll(splits);
            wake();
        }

        @Override
        public void notifyNoMoreSplits() {
            noMore = true;
            wake();
        }

        @Override
        public void close() {}
    }

    /** Assigns the first splits as soon as all readers have registered, and later splits one by one, on request. */
    private static final class Enumerator implements SplitEnumerator<Split, Integer> {
        private final SplitEnumeratorContext<Split> context;
        private final int splits;
        private final int idle;
        private int next;

        Enumerator(SplitEnumeratorContext<Split> context, int splits, int next, int idle) {
            this.context = context;
            this.splits = splits;
            this.next = next;
            this.idle = idle;
        }

        @Override
        public void start() {}

        @Override
        public void addReader(int subtask) {
            int readers = context.currentParallelism();
            if (next == 0 && context.registeredReaders().size() == readers) {
                while (next < splits - KEPT_BACK) {
                    context.assignSplit(new Split(next, 0), idle + next % (readers - idle));
                    next++;
                }
                for (int reader = 0; reader < idle; reader++) {
                    context.signalNoMoreSplits(reader);
                }
            }
        }

        @Override
        public void handleSplitRequest(int subtask, String host) {
            if (next < splits) {
                context.assignSplit(new Split(next++, 0), subtask);
            } else {
                context.signalNoMoreSplits(subtask);
            }
        }

        @Override
        public void addSplitsBack(List<Split> back, int subtask) {
            throw new IllegalStateException("no reader fails in these tests");
        }

        @Override
        public Integer snapshotState(long checkpoint) {
            return next;
        }

        @Override
        public void close() {}
    }
}
