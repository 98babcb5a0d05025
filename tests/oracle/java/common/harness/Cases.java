package harness;

import harness.clicks.Bootstrapped;
import harness.clicks.Clicks;
import harness.everything.Everything;
import harness.graphs.Async;
import harness.graphs.Bulk;
import harness.graphs.Cep;
import harness.graphs.Chained;
import harness.graphs.Churn;
import harness.graphs.Finished;
import harness.graphs.Jam;
import harness.graphs.Joins;
import harness.graphs.Merging;
import harness.graphs.Picked;
import harness.graphs.Queries;
import harness.graphs.Splits;
import harness.graphs.Sql;
import harness.graphs.Windows;
import harness.keyed.Keyed;
import harness.typed.Typed;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.JobID;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.util.FileUtils;

/** Takes snapshots of scenarios, restores them, and compares the restored state. */
public final class Cases {
    private static final Map<String, Scenario> SCENARIOS = Map.ofEntries(
            Map.entry("everything", new Everything()),
            Map.entry("clicks", new Clicks()),
            Map.entry("bootstrapped", new Bootstrapped()),
            Map.entry("windows", new Windows()),
            Map.entry("merging", new Merging()),
            Map.entry("sql", new Sql()),
            Map.entry("queries", new Queries()),
            Map.entry("splits", new Splits()),
            Map.entry("async", new Async()),
            Map.entry("cep", new Cep()),
            Map.entry("finished", new Finished()),
            Map.entry("jam", new Jam()),
            Map.entry("joins", new Joins()),
            Map.entry("chained", new Chained()),
            Map.entry("churn", new Churn()),
            Map.entry("bulk", new Bulk()),
            Map.entry("picked", new Picked()),
            Map.entry("keyed", new Keyed()),
            Map.entry("typed", new Typed()));

    private static final long PAUSE_MILLIS = 2_000;

    private final Cluster cluster;
    private final Map<String, List<String>> undisturbed = new HashMap<>();

    public Cases(Cluster cluster) {
        this.cluster = cluster;
    }

    private static Scenario scenario(Job job) {
        Scenario scenario = SCENARIOS.get(job.scenario);
        return scenario != null ? scenario : compiledApart(job.scenario);
    }

    /** Returns a scenario by its class, which exists only with Kafka, the State Processor API or Flink 2. */
    private static Scenario compiledApart(String name) {
        try {
            return (Scenario) Class.forName("harness." + name).getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException("no scenario: " + name, error);
        }
    }

    /** Returns the state that a snapshot of `job` must hold, as plain maps. */
    public static Map<String, Object> expected(Job job) {
        Expected expected = scenario(job).expected(job);
        return Map.of(
                "keyed", expected.keyed,
                "split", expected.split,
                "union", expected.union,
                "broadcast", expected.broadcast);
    }

    /**
     * Runs the first phase of `job`, or restores the snapshot `restored` instead, and takes snapshots of `kinds` one
     * after the other; answers with their paths. Four kinds take no snapshot: `wave` lets the feeds emit once more,
     * `gate…` waits for a file of that name in `directory`, `pause` waits for two seconds, and `details` writes a
     * file with the answer of the REST API about the job.
     */
    public Map<String, Object> snapshot(JsonNode request, Deadline deadline) throws Exception {
        Job job = new Job(request.get("job"));
        Path directory = Files.createDirectories(Path.of(request.get("directory").asText()));
        String restored = request.get("restored").asText();
        Run run = new Run(!restored.isEmpty());
        String claimMode = request.path("claim_mode").asText("NO_CLAIM");
        Map<String, String> settings = restored.isEmpty() ? Map.of() : restoreOptions(restored, claimMode);
        JobID id = null;
        try {
            id = cluster.submit(scenario(job), job, run, directory, settings, deadline);
            cluster.awaitRunning(id, run, deadline);
            List<String> paths = new ArrayList<>();
            for (JsonNode kind : request.get("kinds")) {
                if (kind.asText().equals("wave")) {
                    run.startWave();
                    cluster.awaitRunning(id, run, deadline);
                } else if (kind.asText().equals("pause")) {
                    Thread.sleep(PAUSE_MILLIS);
                } else if (kind.asText().startsWith("gate")) {
                    Path gate = directory.resolve(kind.asText());
                    while (!Files.exists(gate)) {
                        deadline.pause("the file " + gate);
                    }
                } else if (kind.asText().equals("details")) {
                    paths.add(cluster.details(id, directory, deadline));
                } else {
                    paths.add(cluster.take(id, kind.asText(), directory, deadline));
                }
            }
            return Map.of("paths", paths);
        } finally {
            end(id, run);
        }
    }

    /**
     * Runs `job`, from the snapshot `restored` if given, until it has emitted this number of `results`; then takes
     * snapshots of `kinds`. Answers with the path of the last one, and with all results that were emitted before it.
     */
    public Map<String, Object> collect(JsonNode request, Deadline deadline) throws Exception {
        Job job = new Job(request.get("job"));
        Path directory = Files.createDirectories(Path.of(request.get("directory").asText()));
        String restored = request.get("restored").asText();
        Run run = new Run(!restored.isEmpty());
        Map<String, String> settings = restored.isEmpty() ? Map.of() : restoreOptions(restored, "NO_CLAIM");
        JobID id = null;
        try {
            id = cluster.submit(scenario(job), job, run, directory, settings, deadline);
            do {
                cluster.awaitRunning(id, run, deadline);
                deadline.pause("results");
            } while (run.results().size() < request.get("results").asInt());
            String path = "";
            for (JsonNode kind : request.get("kinds")) {
                path = cluster.take(id, kind.asText(), directory, deadline);
            }
            return Map.of("path", path, "results", run.results());
        } finally {
            end(id, run);
        }
    }

    /** Runs `job`, which ends by itself; answers with all its results. */
    public Map<String, Object> run(JsonNode request, Deadline deadline) throws Exception {
        Job job = new Job(request.get("job"));
        Path own = Files.createTempDirectory(cluster.work(), "run-");
        Run run = new Run(false);
        JobID id = null;
        try {
            id = cluster.submit(scenario(job), job, run, own, Map.of(), deadline);
            cluster.awaitFinished(id, deadline);
            return Map.of("results", run.results());
        } finally {
            end(id, run);
            FileUtils.deleteDirectoryQuietly(own.toFile());
        }
    }

    /**
     * Restores `path`, a snapshot of `source`, as `job`; compares all state; takes a snapshot of kind `next` (if any)
     * and restores it, too; runs the second phase and compares its results. If `keep` is set, the snapshot stays below
     * that directory.
     */
    public Map<String, Object> restore(JsonNode request, Deadline deadline) throws Exception {
        Job source = new Job(request.get("source"));
        Job job = new Job(request.get("job"));
        Comparison comparison = new Comparison();
        Expected expected = scenario(job).expected(source);
        boolean claim = "CLAIM".equals(request.get("claim_mode").asText());
        Map<String, String> settings = restoreOptions(request.get("path").asText(), request.get("claim_mode").asText());
        Map<String, Object> answer = new TreeMap<>();
        String kept = request.path("keep").asText("");
        Path own = kept.isEmpty()
                ? Files.createTempDirectory(cluster.work(), "restored-")
                : Files.createDirectories(Path.of(kept));
        Run run = new Run(true);
        JobID id = null;
        try {
            id = cluster.submit(scenario(job), job, run, own, settings, deadline);
            cluster.awaitRunning(id, run, deadline);
            comparison.state(expected, run.found, source, job, request.path("per_subtask").asBoolean());
            if (claim) {
                answer.put("subsumed_after", takeUntilSubsumed(id, Path.of(request.get("path").asText()), deadline));
            }
            String next = request.path("next").asText("");
            if (!next.isEmpty()) {
                String taken = cluster.take(id, next, own, deadline);
                answer.put("taken", taken);
                restoreAgain(taken, source, job, comparison, deadline);
            }
            run.startSecondPhase();
            cluster.awaitFinished(id, deadline);
            comparison.results(undisturbedResults(job, deadline), run.results());
        } finally {
            end(id, run);
            if (kept.isEmpty()) {
                FileUtils.deleteDirectoryQuietly(own.toFile());
            }
        }
        int shown = Math.min(request.get("shown").asInt(), comparison.differences.size());
        answer.put("differences", comparison.differences.subList(0, shown));
        answer.put("number_of_differences", comparison.differences.size());
        answer.put("compared", comparison.compared);
        return answer;
    }

    private static Map<String, String> restoreOptions(String path, String claimMode) {
        return Map.of(
                "execution.savepoint.path", path,
                "execution.state-recovery.path", path,
                "execution.savepoint-restore-mode", claimMode,
                "execution.state-recovery.claim-mode", claimMode);
    }

    /** Restores the job's own snapshot in the same shape: the state must still be the same. */
    private void restoreAgain(String path, Job source, Job job, Comparison comparison, Deadline deadline)
            throws Exception {
        Path own = Files.createTempDirectory(cluster.work(), "again-");
        Run run = new Run(true);
        Comparison second = new Comparison();
        JobID id = null;
        try {
            id = cluster.submit(scenario(job), job, run, own, restoreOptions(path, "NO_CLAIM"), deadline);
            cluster.awaitRunning(id, run, deadline);
            second.state(scenario(job).expected(source), run.found, source, job, false);
        } finally {
            end(id, run);
            FileUtils.deleteDirectoryQuietly(own.toFile());
        }
        second.differences.forEach(difference -> comparison.differences.add("restored again: " + difference));
        comparison.compared.put("again", second.compared.values().stream().mapToLong(Long::longValue).sum());
    }

    /** Takes checkpoints until Flink has deleted the claimed snapshot; returns their number, or -1 if it stays. */
    private int takeUntilSubsumed(JobID id, Path claimed, Deadline deadline) throws Exception {
        for (int number = 1; number <= 4; number++) {
            cluster.take(id, "checkpoint", claimed, deadline);
            for (int look = 0; look < 40; look++) {
                if (!Files.exists(claimed)) {
                    return number;
                }
                deadline.pause("the claimed snapshot to go");
            }
        }
        return -1;
    }

    /** Returns the results of the second phase of an undisturbed run; they do not depend on the parallelism. */
    private List<String> undisturbedResults(Job job, Deadline deadline) throws Exception {
        String what = job.scenario + job.parameters;
        List<String> known = undisturbed.get(what);
        if (known != null) {
            return known;
        }
        Path own = Files.createTempDirectory(cluster.work(), "undisturbed-");
        Run run = new Run(false);
        JobID id = null;
        try {
            Job narrow = job.narrow();
            id = cluster.submit(scenario(job), narrow, run, own, Map.of(), deadline);
            cluster.awaitRunning(id, run, deadline);
            cluster.take(id, "native", own, deadline);
            run.forgetResults();
            run.startSecondPhase();
            cluster.awaitFinished(id, deadline);
            List<String> second = run.results();
            undisturbed.put(what, second);
            return second;
        } finally {
            end(id, run);
            FileUtils.deleteDirectoryQuietly(own.toFile());
        }
    }

    private void end(JobID id, Run run) throws Exception {
        try {
            if (id != null) {
                cluster.cancel(id, new Deadline(60));
            }
        } finally {
            run.end();
        }
    }
}
