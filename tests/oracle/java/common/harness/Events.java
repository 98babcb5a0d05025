package harness;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;

/**
 * Input of most scenarios: (number of the user, number of the event of this user, amount). The parameter `keys` is the
 * number of users in phase 1, which may be 0; phase 2 has two more users, so that a job without state also has input.
 */
public final class Events implements Feed.Records<Tuple3<Long, Integer, Long>> {
    private static final long serialVersionUID = 1L;
    public static final TypeInformation<Tuple3<Long, Integer, Long>> TYPE =
            Types.TUPLE(Types.LONG, Types.INT, Types.LONG);
    /** The default of `keys`. */
    public static final int USERS = 12;

    private final long seed;
    private final long keys;

    public Events(Job job) {
        seed = job.parameter("seed", 1);
        keys = job.parameter("keys", USERS);
    }

    @Override
    public List<Feed.Timed<Tuple3<Long, Integer, Long>>> of(int phase, int subtask, int parallelism) {
        List<Feed.Timed<Tuple3<Long, Integer, Long>>> events = new ArrayList<>();
        for (long user = subtask; user < (phase == 1 ? keys : keys + 2); user += parallelism) {
            int before = user < keys ? 1 + Mix.below(3, seed, user) : 0;
            int from = phase == 1 ? 0 : before;
            int to = phase == 1 ? before : before + 2;
            for (int number = from; number < to; number++) {
                long time = (phase == 1 ? 1_000 : Feed.PAUSE + 1_000) + number;
                events.add(new Feed.Timed<>(Tuple3.of(user, number, amount(user, number)), time));
            }
        }
        return events;
    }

    private long amount(long user, int number) {
        return Mix.below(1000, seed, user, number);
    }

    /** Returns all events of the first phase, those of each user in order. */
    public List<Tuple3<Long, Integer, Long>> firstPhase() {
        List<Tuple3<Long, Integer, Long>> events = new ArrayList<>();
        of(1, 0, 1).forEach(event -> events.add(event.value()));
        return events;
    }

    /** Returns a user's key in `states`, a string; some have characters outside ASCII. */
    public static String name(long user) {
        return (user % 3 == 0 ? "üser-𝄞-" : "user-") + user;
    }
}
