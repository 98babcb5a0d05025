package harness.clicks;

import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A job whose whole state the State Processor API can also write: the count per user of `Clicks`, and prices in an
 * operator that holds nothing else. Parameters: those of `Clicks`, with `only_users`.
 */
public final class Bootstrapped implements Scenario {
    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        new Clicks().build(environment, job, run);
        Results.collect(
                Feed.add(
                                environment, job, run, "questions", Types.STRING,
                                (phase, subtask, parallelism) -> questions(phase, subtask))
                        .connect(Feed.add(
                                        environment, job, run, "prices", Types.TUPLE(Types.STRING, Types.LONG),
                                        (phase, subtask, parallelism) ->
                                                phase == 1 ? Revenue.prices(phase, subtask) : List.of())
                                .broadcast(Revenue.PRICES))
                        .process(new Answers(run), Types.STRING)
                        .uid(Answers.NAME)
                        .setParallelism(job.parallelism(Answers.NAME)),
                job, run, Answers.NAME);
    }

    /** Questions for the price of every page, in the second phase: in the first one, prices may not have arrived. */
    private static List<Feed.Timed<String>> questions(int phase, int subtask) {
        List<Feed.Timed<String>> questions = new ArrayList<>();
        if (subtask == 0 && phase == 2) {
            Clicks.PAGES.forEach(page -> questions.add(new Feed.Timed<>(page, Feed.PAUSE)));
        }
        return questions;
    }

    @Override
    public Expected expected(Job source) {
        Expected expected = new Clicks().expected(source);
        List<String> prices = new ArrayList<>();
        Revenue.prices(1, 0).forEach(price -> prices.add(price.value().f0 + "=" + price.value().f1));
        expected.broadcast.put(Answers.NAME + "/" + Revenue.PRICES.getName(), prices);
        return expected;
    }
}
