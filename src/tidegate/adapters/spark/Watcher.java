package tidegate;

import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Iterator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SharedState;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.status.api.v1.ExecutorSummary;

/**
 * Observes a Spark context from inside its driver and answers with one string, so that a look costs Python one call.
 *
 * Compiled by Janino, the compiler that Spark ships for its generated code. The code is therefore plain Java, without
 * lambdas and with casts instead of type inference. Scala's iterators are used directly, because converters to Java's
 * differ between Scala 2.12 and 2.13. The lines of an answer are read by watcher.py.
 */
public class Watcher {
    private static final int MOST_LINES = 20000;
    private static final int MOST_STAGES = 2000;
    /** Signs that a task ran out of memory: Java's error, Spark's exit code for it, and those of cluster managers. */
    private static final String[] OUT_OF_MEMORY = {
        "OutOfMemoryError", "exited with code 52", "exit code 52", "exited with code 137", "exit code 137",
        "Exit status: 137", "OOMKilled", "beyond physical memory limits", "beyond the 'PHYSICAL' memory limit",
    };

    private final SparkContext context;
    private final SharedState shared;
    private final ArrayDeque lines = new ArrayDeque();
    private final Map sessions = new WeakHashMap();
    private final Stages stages = new Stages(this);
    private final Queries queries = new Queries(this);
    private final List suppliers = new java.util.ArrayList();
    private final List starters = new java.util.ArrayList();

    public Watcher(SparkContext context, SharedState shared) {
        this.context = context;
        this.shared = shared;
    }

    public void start() {
        context.addSparkListener(stages);
        listen();
    }

    public void stop() {
        context.removeSparkListener(stages);
        synchronized (sessions) {
            Iterator all = sessions.keySet().iterator();
            while (all.hasNext()) {
                ((SparkSession) all.next()).streams().removeListener(queries);
            }
            sessions.clear();
        }
    }

    /** Include these lines in every answer. */
    public void include(Supplier lines) {
        suppliers.add(lines);
    }

    /** Call this with the run id of every starting query, in the query's own thread and before its first batch. */
    public void whenStarting(Consumer starter) {
        starters.add(starter);
    }

    /** Everything since the last look: the current queries and executors, then what was reported. */
    public String look() {
        StringBuilder text = new StringBuilder();
        Iterator active = listen().iterator();
        while (active.hasNext()) {
            StreamingQuery query = (StreamingQuery) active.next();
            text.append("Q\t").append(query.id()).append('\t').append(query.runId()).append('\t');
            text.append(query.status().isTriggerActive() ? 1 : 0).append('\t');
            text.append(query.name() == null ? "" : clean(query.name())).append('\n');
            text.append(offsets(query));
        }
        text.append(stages.running());
        text.append(executors());
        for (int at = 0; at < suppliers.size(); at++) {
            text.append(((Supplier) suppliers.get(at)).get());
        }
        synchronized (lines) {
            Iterator reported = lines.iterator();
            while (reported.hasNext()) {
                text.append((String) reported.next()).append('\n');
            }
            lines.clear();
        }
        return text.toString();
    }

    /** The offsets of the running batch: for each source, in the order of progress reports, those before and after it. */
    private String offsets(StreamingQuery query) {
        StringBuilder text = new StringBuilder();
        try {
            Object committed = call(query, "committedOffsets");
            Object planned = call(query, "availableOffsets");
            scala.collection.Iterator sources = ((scala.collection.Iterable) call(query, "sources")).iterator();
            Set seen = new HashSet();
            while (sources.hasNext()) {
                Object source = sources.next();
                if (seen.add(source)) { // a plan may contain a source twice
                    text.append("O\t").append(query.runId()).append('\t').append(json(committed, source));
                    text.append('\t').append(json(planned, source)).append('\n');
                }
            }
        } catch (Exception unknown) {
            return "";
        }
        return text.toString();
    }

    private static String json(Object offsets, Object source) throws Exception {
        scala.Option offset = (scala.Option) offsets.getClass().getMethod("get", new Class[] {Object.class})
            .invoke(offsets, new Object[] {source});
        return offset.isDefined() ? clean(String.valueOf(call(offset.get(), "json"))) : "null";
    }

    static Object call(Object target, String method) throws Exception {
        return target.getClass().getMethod(method, new Class[0]).invoke(target, new Object[0]);
    }

    /**
     * The registered executors. The driver is one of them only with a local master.
     *
     * One that was killed while it started may register its block manager after it was removed. The status store then
     * lists it for ever; the scheduler does not know it.
     */
    public String executors() {
        StringBuilder text = new StringBuilder();
        scala.collection.Seq known = context.isLocal() ? null : context.getExecutorIds();
        scala.collection.Iterator all = context.statusStore().executorList(true).iterator();
        while (all.hasNext()) {
            ExecutorSummary executor = (ExecutorSummary) all.next();
            if (executor.isActive() && (known == null || known.contains(executor.id()))) {
                text.append("X\t").append(executor.id()).append('\t').append(executor.hostPort()).append('\t');
                text.append(executor.totalCores()).append('\t').append(executor.activeTasks()).append('\t');
                text.append(executor.addTime().getTime()).append('\n');
            }
        }
        return text.toString();
    }

    /** Is no query in the middle of a batch? */
    public boolean betweenBatches() {
        Iterator active = shared.activeStreamingQueries().values().iterator();
        while (active.hasNext()) {
            if (((StreamingQuery) active.next()).status().isTriggerActive()) {
                return false;
            }
        }
        return true;
    }

    /** A running query by its run id, or null. */
    public StreamingQuery query(String runId) {
        Iterator active = shared.activeStreamingQueries().values().iterator();
        while (active.hasNext()) {
            StreamingQuery query = (StreamingQuery) active.next();
            if (query.runId().toString().equals(runId)) {
                return query;
            }
        }
        return null;
    }

    /** A listener hears only its own session, so every session with an active query gets one. */
    private List listen() {
        List active = new java.util.ArrayList(shared.activeStreamingQueries().values());
        Iterator each = active.iterator();
        while (each.hasNext()) {
            listenTo(((StreamingQuery) each.next()).sparkSession());
        }
        return active;
    }

    public void listenTo(SparkSession session) {
        synchronized (sessions) {
            if (!sessions.containsKey(session)) {
                sessions.put(session, Boolean.TRUE);
                session.streams().addListener(queries);
            }
        }
    }

    void report(String line) {
        synchronized (lines) {
            if (lines.size() >= MOST_LINES) {
                lines.removeFirst();
            }
            lines.addLast(line);
        }
    }

    static String clean(String text) {
        return text.replace('\t', ' ').replace('\n', ' ').replace('\r', ' ');
    }

    /** Events of streaming queries. */
    public static class Queries extends StreamingQueryListener {
        private final Watcher watcher;

        Queries(Watcher watcher) {
            this.watcher = watcher;
        }

        public void onQueryStarted(StreamingQueryListener.QueryStartedEvent event) {
            for (int at = 0; at < watcher.starters.size(); at++) {
                ((Consumer) watcher.starters.get(at)).accept(event.runId().toString());
            }
        }

        public void onQueryProgress(StreamingQueryListener.QueryProgressEvent event) {
            watcher.stages.over(event.progress().runId().toString(), event.progress().batchId());
            watcher.report("P\t" + event.progress().json());
        }

        public void onQueryIdle(StreamingQueryListener.QueryIdleEvent event) {
            watcher.report("I\t" + event.runId());
        }

        public void onQueryTerminated(StreamingQueryListener.QueryTerminatedEvent event) {
            String error = "";
            if (event.exception().isDefined()) {
                String[] said = ((String) event.exception().get()).trim().split("\n");
                error = said[0].isEmpty() ? "unknown" : clean(said[0]);
            }
            watcher.stages.over(event.runId().toString(), Long.MAX_VALUE);
            watcher.report("E\t" + event.runId() + "\t" + error);
        }
    }

    /** Stages of streaming batches, added up task by task. */
    public static class Stages extends SparkListener {
        private final Watcher watcher;
        private final Map open = Collections.synchronizedMap(new LinkedHashMap());
        private final Map batches = Collections.synchronizedMap(new HashMap());

        Stages(Watcher watcher) {
            this.watcher = watcher;
        }

        /** One line for every batch that has started and has not reported yet. */
        String running() {
            StringBuilder text = new StringBuilder();
            synchronized (batches) {
                Iterator each = batches.values().iterator();
                while (each.hasNext()) {
                    text.append(((Batch) each.next()).line());
                }
            }
            return text.toString();
        }

        /** The batch has reported, or its query has ended. */
        void over(String run, long upTo) {
            synchronized (batches) {
                Batch batch = (Batch) batches.get(run);
                if (batch != null && Long.parseLong(batch.batch) <= upTo) {
                    batches.remove(run);
                }
            }
        }

        public void onJobStart(SparkListenerJobStart event) {
            Properties properties = event.properties();
            String batch = properties == null ? null : properties.getProperty("streaming.sql.batchId");
            String run = properties == null ? null : properties.getProperty("spark.jobGroup.id");
            if (batch == null || run == null || batches.size() >= MOST_STAGES) {
                return;
            }
            synchronized (batches) {
                Batch known = (Batch) batches.get(run);
                if (known == null || !known.batch.equals(batch)) {
                    known = new Batch(run, batch, event.time());
                    batches.put(run, known);
                }
                known.add(event);
            }
        }

        public void onTaskStart(SparkListenerTaskStart event) {
            Tally tally = (Tally) open.get(Integer.valueOf(event.stageId()));
            Batch batch = tally == null ? null : (Batch) batches.get(tally.run);
            if (batch != null && batch.batch.equals(tally.batch)) {
                batch.started(event.taskInfo());
            }
        }

        public void onStageSubmitted(SparkListenerStageSubmitted event) {
            Properties properties = event.properties();
            String batch = properties == null ? null : properties.getProperty("streaming.sql.batchId");
            String run = properties == null ? null : properties.getProperty("spark.jobGroup.id");
            if (batch == null || run == null) {
                return;
            }
            forgetLost();
            open.put(Integer.valueOf(event.stageInfo().stageId()), new Tally(run, batch));
            watcher.report("B\t" + run + "\t" + batch + "\t" + event.stageInfo().stageId());
        }

        /** A busy listener bus drops events. Stages whose completion was lost are removed, oldest first. */
        private void forgetLost() {
            synchronized (open) {
                Iterator oldest = open.keySet().iterator();
                while (open.size() >= MOST_STAGES && oldest.hasNext()) {
                    oldest.next();
                    oldest.remove();
                }
            }
        }

        public void onTaskEnd(SparkListenerTaskEnd event) {
            Tally tally = (Tally) open.get(Integer.valueOf(event.stageId()));
            if (tally != null && event.taskInfo().successful()) {
                tally.add(event.taskInfo(), event.taskMetrics());
            } else if (tally != null && event.taskInfo().failed()) {
                tally.addFailure(String.valueOf(event.reason()));
            }
            Batch batch = tally == null ? null : (Batch) batches.get(tally.run);
            if (batch != null && batch.batch.equals(tally.batch)) {
                batch.ended(event);
            }
        }

        public void onStageCompleted(SparkListenerStageCompleted event) {
            StageInfo stage = event.stageInfo();
            Tally tally = (Tally) open.remove(Integer.valueOf(stage.stageId()));
            if (tally != null) {
                watcher.report(tally.line(stage));
            }
        }
    }

    /** One batch so far: what its jobs have announced, and what is done. */
    public static class Batch {
        final String run;
        final String batch;
        private final long startedMs;
        private final Map stages = new HashMap();
        private final Map running = new HashMap();
        private int tasks;
        private int done;
        private long busyMs;
        private long rows;

        Batch(String run, String batch, long startedMs) {
            this.run = run;
            this.batch = batch;
            this.startedMs = startedMs;
        }

        /** A job names all its stages in advance. A stage that an earlier job has run is skipped. */
        synchronized void add(SparkListenerJobStart event) {
            scala.collection.Iterator infos = event.stageInfos().iterator();
            while (infos.hasNext()) {
                StageInfo stage = (StageInfo) infos.next();
                if (stages.put(Integer.valueOf(stage.stageId()), Boolean.TRUE) == null) {
                    tasks += stage.numTasks();
                }
            }
        }

        synchronized void started(TaskInfo task) {
            running.put(Long.valueOf(task.taskId()), Long.valueOf(task.launchTime()));
        }

        synchronized void ended(SparkListenerTaskEnd event) {
            running.remove(Long.valueOf(event.taskInfo().taskId()));
            if (event.taskInfo().successful()) {
                done++;
                if (event.taskMetrics() != null) {
                    busyMs += event.taskMetrics().executorRunTime();
                    rows += event.taskMetrics().inputMetrics().recordsRead();
                }
            }
        }

        synchronized String line() {
            long now = System.currentTimeMillis();
            long heldMs = 0;
            Iterator launched = running.values().iterator();
            while (launched.hasNext()) {
                heldMs += Math.max(0, now - ((Long) launched.next()).longValue());
            }
            return "R\t" + run + "\t" + batch + "\t" + startedMs + "\t" + done + "\t" + Math.max(0, tasks - done) + "\t"
                + running.size() + "\t" + busyMs + "\t" + heldMs + "\t" + rows + "\n";
        }
    }

    /** One stage so far. */
    public static class Tally {
        final String run;
        final String batch;
        private final StringBuilder where = new StringBuilder();
        private int tasks;
        private int failed;
        private int outOfMemory;
        private long peakBytes;
        private long longestMs = -1;
        private int longestPartition = -1;
        private long launchedMs = Long.MAX_VALUE;

        Tally(String run, String batch) {
            this.run = run;
            this.batch = batch;
        }

        synchronized void add(TaskInfo task, TaskMetrics metrics) {
            tasks++;
            launchedMs = Math.min(launchedMs, task.launchTime());
            where.append(where.length() == 0 ? "" : ",").append(task.partitionId()).append(':').append(task.executorId());
            if (metrics != null) {
                peakBytes = Math.max(peakBytes, metrics.peakExecutionMemory());
            }
            if (metrics != null && metrics.executorRunTime() > longestMs) {
                longestMs = metrics.executorRunTime();
                longestPartition = task.partitionId();
            }
        }

        /** Count a failed attempt, but not one that was killed (a faster copy, a cancelled stage). */
        synchronized void addFailure(String reason) {
            failed++;
            for (int at = 0; at < OUT_OF_MEMORY.length; at++) {
                if (reason.contains(OUT_OF_MEMORY[at])) {
                    outOfMemory++;
                    return;
                }
            }
        }

        synchronized String line(StageInfo stage) {
            TaskMetrics metrics = stage.taskMetrics();
            StringBuilder text = new StringBuilder("S");
            text.append('\t').append(run).append('\t').append(batch).append('\t').append(stage.stageId());
            text.append('\t').append(stage.failureReason().isDefined() ? 0 : 1);
            text.append('\t').append(tasks).append('\t').append(longestMs).append('\t').append(longestPartition);
            text.append('\t').append(tasks == 0 ? "" : String.valueOf(launchedMs));
            text.append('\t').append(stage.completionTime().isDefined() ? stage.completionTime().get().toString() : "");
            text.append('\t').append(metrics.executorRunTime()).append('\t').append(metrics.executorCpuTime());
            text.append('\t').append(metrics.shuffleReadMetrics().fetchWaitTime());
            text.append('\t').append(metrics.shuffleWriteMetrics().writeTime());
            text.append('\t').append(metrics.inputMetrics().recordsRead());
            text.append('\t').append(metrics.shuffleReadMetrics().recordsRead());
            text.append('\t').append(metrics.shuffleWriteMetrics().recordsWritten());
            text.append('\t').append(metrics.outputMetrics().recordsWritten());
            text.append('\t').append(metrics.shuffleReadMetrics().remoteBytesRead() + metrics.shuffleReadMetrics().localBytesRead());
            text.append('\t').append(metrics.shuffleWriteMetrics().bytesWritten());
            text.append('\t').append(failed);
            text.append('\t').append(metrics.jvmGCTime());
            text.append('\t').append(metrics.diskBytesSpilled());
            text.append('\t').append(outOfMemory);
            text.append('\t').append(peakBytes);
            text.append('\t').append(where);
            return text.toString();
        }
    }
}
