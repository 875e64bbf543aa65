package tidegate;

import java.util.ArrayDeque;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.WeakHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SharedState;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.status.api.v1.ExecutorSummary;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Watches a Spark context from inside its driver and answers with one string, so that a look costs Python one call.
 *
 * Compiled by Janino, the compiler that Spark itself ships for its generated code: hence the plain Java, without lambdas
 * and with casts in place of type inference. The lines of an answer are read by watcher.py.
 */
public class Watcher {
    private static final int MOST_LINES = 20000;
    private static final int MOST_STAGES = 2000;

    private final SparkContext context;
    private final SharedState shared;
    private final ArrayDeque lines = new ArrayDeque();
    private final Map sessions = new WeakHashMap();
    private final Stages stages = new Stages(this);
    private final Queries queries = new Queries(this);

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

    /** Everything since the last look: queries and executors as they are now, then what was reported. */
    public String look() {
        StringBuilder text = new StringBuilder();
        Iterator active = listen().iterator();
        while (active.hasNext()) {
            StreamingQuery query = (StreamingQuery) active.next();
            text.append("Q\t").append(query.id()).append('\t').append(query.runId()).append('\t');
            text.append(query.status().isTriggerActive() ? 1 : 0).append('\t');
            text.append(query.name() == null ? "" : clean(query.name())).append('\n');
        }
        text.append(executors());
        synchronized (lines) {
            Iterator reported = lines.iterator();
            while (reported.hasNext()) {
                text.append((String) reported.next()).append('\n');
            }
            lines.clear();
        }
        return text.toString();
    }

    /** The executors that are registered; the driver is one of them on a local master only. */
    public String executors() {
        StringBuilder text = new StringBuilder();
        Iterator all = CollectionConverters.asJava(context.statusStore().executorList(true)).iterator();
        while (all.hasNext()) {
            ExecutorSummary executor = (ExecutorSummary) all.next();
            if (executor.isActive() && (context.isLocal() || !"driver".equals(executor.id()))) {
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

    /** A listener hears its own session only: every session that turns up among the active queries gets one. */
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

    /** What streaming queries say. */
    public static class Queries extends StreamingQueryListener {
        private final Watcher watcher;

        Queries(Watcher watcher) {
            this.watcher = watcher;
        }

        public void onQueryStarted(StreamingQueryListener.QueryStartedEvent event) {
        }

        public void onQueryProgress(StreamingQueryListener.QueryProgressEvent event) {
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
            watcher.report("E\t" + event.runId() + "\t" + error);
        }
    }

    /** Stages of streaming batches, added up task by task. */
    public static class Stages extends SparkListener {
        private final Watcher watcher;
        private final Map open = Collections.synchronizedMap(new HashMap());

        Stages(Watcher watcher) {
            this.watcher = watcher;
        }

        public void onStageSubmitted(SparkListenerStageSubmitted event) {
            Properties properties = event.properties();
            String batch = properties == null ? null : properties.getProperty("streaming.sql.batchId");
            String run = properties == null ? null : properties.getProperty("spark.jobGroup.id");
            if (batch == null || run == null || open.size() >= MOST_STAGES) {
                return;
            }
            open.put(Integer.valueOf(event.stageInfo().stageId()), new Tally(run, batch));
            watcher.report("B\t" + run + "\t" + batch + "\t" + event.stageInfo().stageId());
        }

        public void onTaskEnd(SparkListenerTaskEnd event) {
            Tally tally = (Tally) open.get(Integer.valueOf(event.stageId()));
            if (tally != null && event.taskInfo().successful()) {
                tally.add(event.taskInfo(), event.taskMetrics());
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

    /** One stage so far. */
    public static class Tally {
        private final String run;
        private final String batch;
        private final StringBuilder where = new StringBuilder();
        private int tasks;
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
            if (metrics != null && metrics.executorRunTime() > longestMs) {
                longestMs = metrics.executorRunTime();
                longestPartition = task.partitionId();
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
            text.append('\t').append(where);
            return text.toString();
        }
    }
}
