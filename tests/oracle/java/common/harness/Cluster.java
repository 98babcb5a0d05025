package harness;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.runtime.checkpoint.CheckpointException;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** A whole Flink in this JVM, and the operations of the harness on its jobs. */
public final class Cluster implements AutoCloseable {
    /** Enough slots for two jobs of the highest parallelism: a restored job, and a job from its snapshot. */
    private static final int SLOTS = 64;

    private final MiniCluster cluster;
    private final Path work;

    /** Starts the cluster, with scratch space in `work`; `more` are further options of Flink. */
    public Cluster(Path work, Map<String, String> more) throws Exception {
        this.work = work;
        Configuration configuration = new Configuration();
        Map<String, String> options = Map.of(
                "io.tmp.dirs", work.toString(),
                "taskmanager.memory.segment-size", "4kb",
                "taskmanager.memory.network.min", "160mb",
                "taskmanager.memory.network.max", "160mb",
                "taskmanager.memory.managed.size", "64mb",
                "heartbeat.timeout", "600000",
                "jobstore.max-capacity", "4");
        options.forEach(configuration::setString);
        more.forEach(configuration::setString);
        FileSystem.initialize(configuration, null);
        // Put no state into _metadata: otherwise these tiny snapshots would have no files.
        setBoth(
                configuration, "state.storage.fs.memory-threshold", "execution.checkpointing.data-inline-threshold", "0");
        cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(SLOTS)
                .setCommonBindAddress("127.0.0.1")
                .withRandomPorts()
                .build());
        cluster.start();
    }

    /** Starts a job, whose checkpoints go to `checkpoints`; `restore` has the options of a restore, if there is one. */
    public JobID submit(
            Scenario scenario, Job job, Run run, Path checkpoints, Map<String, String> restore, Deadline deadline)
            throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("restart-strategy", "none");
        configuration.setString("restart-strategy.type", "none");
        configuration.setString("execution.checkpointing.interval", "24h");
        setBoth(configuration, "state.checkpoints.dir", "execution.checkpointing.dir", checkpoints.toUri().toString());
        job.configuration.forEach(configuration::setString);
        restore.forEach(configuration::setString);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.setParallelism(job.parallelism);
        if (job.maxParallelism > 0) {
            environment.setMaxParallelism(job.maxParallelism);
        }
        environment.getConfig().setUseSnapshotCompression(job.compression);
        scenario.build(environment, job, run);
        for (Transformation<?> transformation : environment.getTransformations()) {
            String uid = transformation.getUid();
            if (uid != null && job.uids.containsKey(uid)) {
                String other = job.uids.get(uid);
                transformation.setUid(other.isEmpty() ? null : other);
            }
        }
        JobGraph graph = environment.getStreamGraph().getJobGraph();
        for (JobVertex task : graph.getVertices()) {
            if (job.maxExceptions.containsKey(task.getName())) {
                task.setMaxParallelism(job.maxExceptions.get(task.getName()));
            }
        }
        graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(configuration));
        deadline.get(cluster.submitJob(graph), "the job to be taken");
        return graph.getJobID();
    }

    /** Sets an option that has one name in Flink 1.x and another in 2.x. */
    private static void setBoth(Configuration configuration, String first, String second, String value) {
        configuration.setString(first, value);
        configuration.setString(second, value);
    }

    /**
     * Waits until every task runs (so all state is restored) or is finished, every feed has emitted, and the expected
     * tasks are finished, for which they need a checkpoint.
     */
    public void awaitRunning(JobID id, Run run, Deadline deadline) throws Exception {
        while (!allRun(id, deadline) || !run.allEmitted()) {
            deadline.pause("the job to run");
        }
        while (countFinished(id, deadline) < run.finishing()) {
            try {
                deadline.get(cluster.triggerCheckpoint(id), "a checkpoint for tasks at their end");
            } catch (CheckpointException notYet) {
                deadline.pause("tasks to finish: " + notYet.getMessage());
            }
            deadline.pause("tasks to finish");
        }
    }

    private int countFinished(JobID id, Deadline deadline) throws Exception {
        int finished = 0;
        for (AccessExecutionVertex vertex :
                deadline.get(cluster.getExecutionGraph(id), "the job's tasks").getAllExecutionVertices()) {
            finished += vertex.getExecutionState() == ExecutionState.FINISHED ? 1 : 0;
        }
        return finished;
    }

    private boolean allRun(JobID id, Deadline deadline) throws Exception {
        JobStatus status = deadline.get(cluster.getJobStatus(id), "the job's status");
        if (status.isGloballyTerminalState() && status != JobStatus.FINISHED) {
            throw failure(id, deadline);
        }
        if (status != JobStatus.RUNNING) {
            return status == JobStatus.FINISHED;
        }
        AccessExecutionGraph graph = deadline.get(cluster.getExecutionGraph(id), "the job's tasks");
        for (AccessExecutionVertex vertex : graph.getAllExecutionVertices()) {
            ExecutionState state = vertex.getExecutionState();
            if (state != ExecutionState.RUNNING && state != ExecutionState.FINISHED) {
                return false;
            }
        }
        return true;
    }

    private JobFailed failure(JobID id, Deadline deadline) throws Exception {
        JobResult result = deadline.get(cluster.requestJobResult(id), "why the job failed");
        Throwable cause = result.getSerializedThrowable()
                .<Throwable>map(error -> error.deserializeError(getClass().getClassLoader()))
                .orElse(new IllegalStateException("the job was cancelled"));
        return new JobFailed(cause);
    }

    /**
     * Takes a snapshot of `kind` canonical, native, checkpoint or stop (a savepoint that ends the job); returns its
     * path. Savepoints go below `directory`, checkpoints into the job's own directory. If Flink declines because a task
     * finishes at the same time, the snapshot is triggered again.
     */
    public String take(JobID id, String kind, Path directory, Deadline deadline) throws Exception {
        while (true) {
            try {
                String path = deadline.get(trigger(id, kind, directory.toUri().toString()), kind);
                return path.startsWith("file:") ? Path.of(java.net.URI.create(path)).toString() : path;
            } catch (CheckpointException declined) {
                deadline.pause("a snapshot: " + declined.getMessage());
            }
        }
    }

    private CompletableFuture<String> trigger(JobID id, String kind, String target) {
        return switch (kind) {
            case "canonical" -> cluster.triggerSavepoint(id, target, false, SavepointFormatType.CANONICAL);
            case "native" -> cluster.triggerSavepoint(id, target, false, SavepointFormatType.NATIVE);
            case "checkpoint" -> cluster.triggerCheckpoint(id);
            case "stop" -> cluster.stopWithSavepoint(id, target, false, SavepointFormatType.CANONICAL);
            default -> throw new IllegalArgumentException("no kind of snapshot: " + kind);
        };
    }

    /** Writes the answer of Flink's REST API about a job into a file in `directory`; returns its path. */
    public String details(JobID id, Path directory, Deadline deadline) throws Exception {
        URI details = deadline.get(cluster.getRestAddress(), "the REST API").resolve("/jobs/" + id);
        HttpResponse<Path> answer = HttpClient.newHttpClient()
                .send(HttpRequest.newBuilder(details).build(), HttpResponse.BodyHandlers.ofFile(directory.resolve("job.json")));
        return answer.body().toString();
    }

    /** Triggers the last checkpoint, for which tasks wait at their end, and waits until the job has ended by itself. */
    public void awaitFinished(JobID id, Deadline deadline) throws Exception {
        while (true) {
            JobStatus status = deadline.get(cluster.getJobStatus(id), "the job's status");
            if (status == JobStatus.FINISHED) {
                return;
            }
            if (status.isGloballyTerminalState()) {
                throw failure(id, deadline);
            }
            CompletableFuture<String> last = cluster.triggerCheckpoint(id);
            while (!last.isDone() && deadline.get(cluster.getJobStatus(id), "the job's status") == JobStatus.RUNNING) {
                deadline.pause("the job to end");
            }
            deadline.pause("the job to end");
        }
    }

    /** Cancels a job, unless it has already ended. */
    public void cancel(JobID id, Deadline deadline) throws Exception {
        if (!deadline.get(cluster.getJobStatus(id), "the job's status").isGloballyTerminalState()) {
            cluster.cancelJob(id);
        }
        deadline.get(cluster.requestJobResult(id), "the job to be cancelled");
    }

    public Path work() {
        return work;
    }

    @Override
    public void close() throws Exception {
        cluster.close();
    }
}
