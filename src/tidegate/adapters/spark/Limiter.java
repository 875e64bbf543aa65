package tidegate;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReadMinRows;
import org.apache.spark.sql.internal.SharedState;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * Limits the intake of running queries, without a restart and without a change to the job.
 *
 * A micro-batch execution keeps a read limit for each of its sources and reads it before every batch. This class
 * replaces those limits. They are always combined with the user's own limits and never exceed them. Everything is under
 * a lease: if the controller is gone and does not renew it, a daemon thread restores the user's own limits and interval.
 *
 * Spark moved its execution classes between versions, so they are accessed by reflection. Compiled by Janino (see
 * Watcher.java).
 */
public class Limiter implements Consumer, Supplier, Runnable {
    private static final long POLL_MS = 50;
    private static final long LOOK_MS = 2;
    private static final long NONE = -1;
    private static final double FILE_ROWS = 1000.0;
    private static final long PLAN_WAIT_MS = 5000;

    private final SharedState shared;
    private final BiFunction watermarks;
    private final BiFunction replanning;
    private final Map wishes = new HashMap();
    private final Map runs = new HashMap();
    private long firstRows = NONE;
    private long leaseEndNs = System.nanoTime();
    private boolean watching;

    public Limiter(SharedState shared, BiFunction watermarks, BiFunction replanning) {
        this.shared = shared;
        this.watermarks = watermarks;
        this.replanning = replanning;
    }

    /** Extend the lease of everything that was requested. */
    public synchronized void renew(long leaseMs) {
        leaseEndNs = System.nanoTime() + leaseMs * 1000000L;
        if (!watching) {
            watching = true;
            Thread thread = new Thread(this, "tidegate-limits");
            thread.setDaemon(true);
            thread.start();
        }
        applyAll();
    }

    /** Limit for the first batches of queries without a request; negative: no limit. */
    public synchronized void first(long rows) {
        firstRows = rows;
        applyAll();
    }

    /** At most this many rows (or as many files as contain them) per batch; negative: the user's own limit. */
    public synchronized void limit(String name, long rows, double rowsPerFile) {
        Wish wish = wish(name);
        wish.rows = rows;
        wish.rowsPerFile = rowsPerFile;
        wish.asked = true;
        applyAll();
    }

    /** Trigger at this interval from now on; negative: the user's own interval. */
    public synchronized void interval(String name, long millis) {
        wish(name).intervalMs = millis;
        applyAll();
    }

    /** Start no further batch with rows until `resume`, or until the time is over. */
    public synchronized void pause(String name, long millis) {
        wish(name).pausedUntilNs = System.nanoTime() + millis * 1000000L;
        wish(name).paused = true;
        applyAll();
    }

    public synchronized void resume(String name) {
        if (wishes.containsKey(name)) {
            wish(name).paused = false;
            applyAll();
        }
    }

    /** Restore everything and drop all requests. */
    public synchronized void release() {
        firstRows = NONE;
        wishes.clear();
        leaseEndNs = System.nanoTime();
        applyAll();
    }

    /** Drop the requests for one query: it has ended, or nothing is requested any more. */
    public synchronized void forget(String name) {
        wishes.remove(name);
        applyAll();
    }

    /**
     * Is the last planned batch committed? Checked under the lock that planning holds, so with a paused source the
     * answer stays true (except for batches without data).
     */
    public boolean quiet(String name, long waitMs) throws Exception {
        StreamingQuery query = null;
        Iterator active = active().iterator();
        while (active.hasNext()) {
            StreamingQuery one = (StreamingQuery) active.next();
            query = name.equals(nameOf(one)) ? one : query;
        }
        if (query == null) {
            return true;
        }
        ReentrantLock lock = (ReentrantLock) call(query, "awaitProgressLock");
        if (!lock.tryLock(waitMs, TimeUnit.MILLISECONDS)) {
            return false;
        }
        try {
            Object planned = call(call(query, "offsetLog"), "getLatestBatchId");
            return planned.equals(call(call(query, "commitLog"), "getLatestBatchId"));
        } finally {
            lock.unlock();
        }
    }

    /**
     * Called when a query starts, in the query's own thread, before its first batch is planned. The plan is made here
     * rather than a moment later, so that even the first batch after an outage is limited.
     */
    public void accept(Object runId) {
        Iterator active = active().iterator();
        while (active.hasNext()) {
            StreamingQuery query = (StreamingQuery) active.next();
            if (query.runId().toString().equals(runId) && refusal(query) == null) {
                synchronized (this) {
                    Wish wish = (Wish) wishes.get(nameOf(query));
                    if (!leased() || (wish == null && firstRows < 0)) {
                        return;
                    }
                }
                try {
                    call(query, "logicalPlan");
                } catch (Exception failed) {
                    return; // the query is about to fail in the same way and will report it
                }
                synchronized (this) {
                    applyAll();
                }
            }
        }
    }

    /** One line per running query: what it can be limited by, what is in force, or why it cannot be limited. */
    public synchronized Object get() {
        StringBuilder text = new StringBuilder();
        Iterator active = active().iterator();
        while (active.hasNext()) {
            StreamingQuery query = (StreamingQuery) active.next();
            Run run = run(query);
            text.append("L\t").append(query.runId()).append('\t').append(run.kind()).append('\t');
            text.append(run.inForce(true)).append('\t').append(run.inForce(false)).append('\t');
            text.append(run.paused ? 1 : 0).append('\t').append(run.intervalMs()).append('\t');
            text.append(run.names()).append('\t');
            text.append(run.refusal == null ? "" : run.refusal).append('\n');
        }
        return text.toString();
    }

    /** Number of files that a file source read between two of its offsets; negative if unknown. */
    public long files(String runId, long after, long upTo) {
        try {
            Run run = (Run) runs.get(runId);
            if (run == null || run.gates.size() != 1 || !((Gate) run.gates.get(0)).files) {
                return NONE;
            }
            Object source = ((Gate) run.gates.get(0)).source;
            Field field = source.getClass().getDeclaredField("metadataLog");
            field.setAccessible(true);
            Object log = field.get(source);
            // By range: read one by one, every tenth entry contains all entries before it.
            Object entries = log.getClass().getMethod("get", new Class[] {scala.Option.class, scala.Option.class})
                .invoke(log, new Object[] {scala.Option.apply(Long.valueOf(after + 1)), scala.Option.apply(Long.valueOf(upTo))});
            long count = 0;
            for (int at = 0; at < java.lang.reflect.Array.getLength(entries); at++) {
                count += java.lang.reflect.Array.getLength(((scala.Tuple2) java.lang.reflect.Array.get(entries, at))._2());
            }
            return count;
        } catch (Exception unknown) {
            return NONE;
        }
    }

    /** The sources of a run; empty until its plan is made. */
    public List sources(String runId) throws Exception {
        Run run = (Run) runs.get(runId);
        return run == null ? new ArrayList() : run.plain();
    }

    public void run() {
        while (true) {
            try {
                awaitPlans();
                for (long slept = 0; slept < POLL_MS && !news(); slept += LOOK_MS) {
                    Thread.sleep(LOOK_MS);
                }
            } catch (InterruptedException over) {
                return;
            }
            synchronized (this) {
                if (!leased()) {
                    release();
                    watching = false;
                    return;
                }
                applyAll();
            }
        }
    }

    /**
     * Keep queries without a plan from planning a batch until their limit is set. If Tidegate attaches right after
     * `start()`, or in another session, it is not notified of the start. Planning needs the lock that is held here.
     */
    private void awaitPlans() throws InterruptedException {
        Map held = new HashMap();
        long untilNs = System.nanoTime() + PLAN_WAIT_MS * 1000000L;
        try {
            while (System.nanoTime() < untilNs) {
                List waiting = withoutPlan();
                Iterator each = waiting.iterator();
                while (each.hasNext()) {
                    Run run = (Run) each.next();
                    if (!held.containsKey(run) && run.progress() != null && run.progress().tryLock()) {
                        held.put(run, run.progress());
                    }
                }
                each = held.entrySet().iterator();
                while (each.hasNext()) {
                    Map.Entry entry = (Map.Entry) each.next();
                    if (!waiting.contains(entry.getKey())) {
                        ((ReentrantLock) entry.getValue()).unlock();
                        each.remove();
                    }
                }
                if (waiting.isEmpty()) {
                    return;
                }
                Thread.sleep(1);
            }
        } finally {
            Iterator each = held.values().iterator();
            while (each.hasNext()) {
                ((ReentrantLock) each.next()).unlock();
            }
        }
    }

    /** Has an unknown query started? */
    private synchronized boolean news() {
        Iterator active = active().iterator();
        while (active.hasNext()) {
            if (!runs.containsKey(((StreamingQuery) active.next()).runId().toString())) {
                return true;
            }
        }
        return false;
    }

    /** Runs to be limited whose sources are not known yet. The limits of all others are set. */
    private synchronized List withoutPlan() {
        List found = new ArrayList();
        if (leased()) {
            applyAll();
            Iterator each = runs.values().iterator();
            while (each.hasNext()) {
                Run run = (Run) each.next();
                boolean wanted = wishes.containsKey(nameOf(run.query)) || firstRows >= 0;
                if (wanted && run.refusal == null && !run.ready && run.query.isActive()) {
                    found.add(run);
                }
            }
        }
        return found;
    }

    private boolean leased() {
        return System.nanoTime() < leaseEndNs;
    }

    private Wish wish(String name) {
        Wish wish = (Wish) wishes.get(name);
        if (wish == null) {
            wish = new Wish();
            wishes.put(name, wish);
        }
        return wish;
    }

    private void applyAll() {
        Map seen = new HashMap();
        Iterator active = active().iterator();
        while (active.hasNext()) {
            StreamingQuery query = (StreamingQuery) active.next();
            Run run = run(query);
            seen.put(query.runId().toString(), run);
            if (run.refusal == null) {
                try {
                    run.apply((Wish) wishes.get(nameOf(query)), firstRows, leased());
                } catch (Exception failed) {
                    run.refusal = "its read limits could not be set: " + failed;
                }
            }
        }
        runs.keySet().retainAll(seen.keySet());
    }

    private Run run(StreamingQuery query) {
        String key = query.runId().toString();
        Run run = (Run) runs.get(key);
        if (run == null) {
            run = new Run(query, refusal(query), watermarks, replanning);
            runs.put(key, run);
        }
        return run;
    }

    private List active() {
        return new ArrayList(shared.activeStreamingQueries().values());
    }

    /** The name that Python uses: a query without a name is known by its id, which survives restarts. */
    static String nameOf(StreamingQuery query) {
        return query.name() != null ? query.name() : "query-" + query.id().toString().substring(0, 8);
    }

    /** Why this kind of query cannot be limited; null if it can. */
    static String refusal(StreamingQuery query) {
        String kind = query.getClass().getSimpleName();
        if (kind.startsWith("AsyncProgressTracking")) {
            return "its progress is tracked asynchronously, so batches are planned by other rules";
        }
        if (!kind.equals("MicroBatchExecution")) {
            return "it does not run in micro-batches";
        }
        String trigger;
        try {
            trigger = call(query, "trigger").getClass().getSimpleName();
        } catch (Exception unknown) {
            return "its trigger cannot be read in this version of Spark";
        }
        if (trigger.startsWith("ProcessingTime")) {
            return null;
        }
        return "its trigger is " + trigger.replace("Trigger", "").replace("$", "") + ": a limit could end it early";
    }

    /** Maximum rows or files of a limit; negative if unlimited. */
    static long mostOf(ReadLimit limit) {
        if (limit instanceof ReadMaxRows) {
            return ((ReadMaxRows) limit).maxRows();
        }
        if (limit instanceof ReadMaxFiles) {
            return ((ReadMaxFiles) limit).maxFiles();
        }
        if (limit instanceof CompositeReadLimit) {
            ReadLimit[] parts = ((CompositeReadLimit) limit).getReadLimits();
            for (int at = 0; at < parts.length; at++) {
                if (parts[at] instanceof ReadMaxRows) {
                    return ((ReadMaxRows) parts[at]).maxRows();
                }
            }
        }
        return NONE;
    }

    static Object call(Object target, String method) throws Exception {
        return target.getClass().getMethod(method, new Class[0]).invoke(target, new Object[0]);
    }

    /** The requests for one query, across all its runs. */
    public static class Wish {
        long rows = NONE;
        double rowsPerFile = FILE_ROWS;
        boolean asked;
        boolean paused;
        long pausedUntilNs;
        long intervalMs = NONE;
    }

    /** One source of a run, with the user's limit. */
    public static class Gate {
        final Object source;
        final ReadLimit own;
        final boolean files;
        ReadLimit now;
        private long least;

        Gate(Object source, ReadLimit own, boolean files) {
            this.source = source;
            this.own = own;
            this.files = files;
            this.now = own;
            this.least = mostOf(own);
        }

        void set(ReadLimit limit) {
            now = limit;
            least = mostOf(limit) < 0 ? least : least < 0 ? mostOf(limit) : Math.min(least, mostOf(limit));
        }

        /** The tightest limit since the last call; negative if there was none. */
        long takeLeast() {
            long found = least;
            least = mostOf(now);
            return found;
        }

        /** The user's limit combined with ours: never more than either; null if they cannot be combined. */
        ReadLimit composed(long most) {
            if (files) {
                int few = (int) Math.min(most, Integer.MAX_VALUE);
                if (own instanceof ReadMaxFiles) {
                    return ReadLimit.maxFiles(Math.min(few, ((ReadMaxFiles) own).maxFiles()));
                }
                return own instanceof ReadAllAvailable || most == 0 ? ReadLimit.maxFiles(few) : null;
            }
            if (most == 0 || own instanceof ReadAllAvailable) {
                return ReadLimit.maxRows(most);
            }
            ReadLimit[] parts = own instanceof CompositeReadLimit ? ((CompositeReadLimit) own).getReadLimits() : new ReadLimit[] {own};
            List kept = new ArrayList();
            long least = most;
            for (int at = 0; at < parts.length; at++) {
                if (parts[at] instanceof ReadMaxRows) {
                    least = Math.min(least, ((ReadMaxRows) parts[at]).maxRows());
                } else if (parts[at] instanceof ReadMinRows) {
                    kept.add(parts[at]);
                } else {
                    return null;
                }
            }
            ReadLimit max = ReadLimit.maxRows(least);
            if (kept.isEmpty()) {
                return max;
            }
            kept.add(max);
            return ReadLimit.compositeLimit((ReadLimit[]) kept.toArray(new ReadLimit[kept.size()]));
        }
    }

    /** One run of a query. Its sources are created anew for each run. */
    public static class Run implements Supplier {
        final StreamingQuery query;
        final List gates = new ArrayList();
        String refusal;
        boolean paused;
        boolean ready;
        private boolean onlyPauses;
        private final BiFunction watermarks;
        private final BiFunction replanning;
        private boolean touched;
        private long ownIntervalMs = NONE;
        private Object hold;
        private Awaited awaited;
        private Wish lastWish;
        private long lastFirstRows = NONE;
        private boolean lastLeased;

        Run(StreamingQuery query, String refusal, BiFunction watermarks, BiFunction replanning) {
            this.query = query;
            this.refusal = refusal;
            this.watermarks = watermarks;
            this.replanning = replanning;
        }

        /** For each source: the source, the user's own limit, and the tightest limit since the last call. */
        public synchronized Object get() {
            List found = new ArrayList();
            for (int at = 0; at < gates.size(); at++) {
                Gate gate = (Gate) gates.get(at);
                found.add(new Object[] {gate.source, gate.own, Long.valueOf(gate.takeLeast())});
            }
            return found;
        }

        /** The lock under which batches are planned and committed; null if there is none. */
        ReentrantLock progress() {
            try {
                return (ReentrantLock) call(query, "awaitProgressLock");
            } catch (Exception unknown) {
                return null;
            }
        }

        /** The sources, which are known once the plan is made; null until then. */
        private scala.collection.immutable.Map sources() throws Exception {
            scala.collection.immutable.Map map = (scala.collection.immutable.Map) call(query, "uniqueSources");
            if (!ready && !map.isEmpty()) {
                scala.collection.Iterator each = map.iterator();
                while (each.hasNext()) {
                    scala.Tuple2 pair = (scala.Tuple2) each.next();
                    String kind = kindOf(pair._1(), (ReadLimit) pair._2());
                    if (kind == null) {
                        refusal = "its source " + pair._1().getClass().getSimpleName() + " accepts no limit known to Tidegate";
                        return null;
                    }
                    Gate gate = new Gate(pair._1(), (ReadLimit) pair._2(), kind.equals("files"));
                    gates.add(gate);
                    onlyPauses = onlyPauses || gate.composed(1) == null;
                }
                awaited = Awaited.of(this);
                ready = true;
            }
            return map;
        }

        /** In the order of progress reports. A plan may contain a source twice. */
        List plain() throws Exception {
            List found = new ArrayList();
            scala.collection.Iterator each = ((scala.collection.Iterable) call(query, "sources")).iterator();
            while (each.hasNext()) {
                Object source = each.next();
                if (!found.contains(source)) {
                    found.add(source);
                }
            }
            return found;
        }

        /** The classes of the sources, separated by commas. */
        String names() {
            StringBuilder text = new StringBuilder();
            try {
                Iterator each = plain().iterator();
                while (each.hasNext()) {
                    text.append(text.length() == 0 ? "" : ",").append(each.next().getClass().getSimpleName());
                }
            } catch (Exception unknown) {
                return "";
            }
            return text.toString();
        }

        /** Rows for Kafka and Python sources, files for file and Delta sources. The wrong kind would end the query. */
        static String kindOf(Object source, ReadLimit own) {
            String name = source.getClass().getName();
            if (name.equals("org.apache.spark.sql.kafka010.KafkaMicroBatchStream") || name.equals("org.apache.spark.sql.kafka010.KafkaSource")) {
                return "rows";
            }
            if (name.startsWith("org.apache.spark.sql.execution.") && name.contains(".python.PythonMicroBatchStream")) {
                return own instanceof ReadMaxRows ? "rows" : null; // the reader itself declares what it supports
            }
            if (name.startsWith("org.apache.spark.sql.execution.streaming.") && name.endsWith(".FileStreamSource")) {
                return latestFirst(source) ? null : "files"; // new files would be read before the backlog
            }
            return name.equals("org.apache.spark.sql.delta.sources.DeltaSource") ? "files" : null;
        }

        private static boolean latestFirst(Object source) {
            try {
                Field field = source.getClass().getDeclaredField("sourceOptions");
                field.setAccessible(true);
                return Boolean.TRUE.equals(call(field.get(source), "latestFirst"));
            } catch (Exception unknown) {
                return false;
            }
        }

        synchronized void apply(Wish wish, long firstRows, boolean leased) throws Exception {
            lastWish = wish;
            lastFirstRows = firstRows;
            lastLeased = leased;
            scala.collection.immutable.Map map = sources();
            if (map == null || !ready) {
                return;
            }
            paused = leased && wish != null && wish.paused && System.nanoTime() < wish.pausedUntilNs && !awaited.now();
            long rows = !leased || onlyPauses ? NONE : wish != null && wish.asked ? wish.rows : firstRows;
            scala.collection.immutable.Map changed = map;
            for (int at = 0; at < gates.size(); at++) {
                Gate gate = (Gate) gates.get(at);
                ReadLimit limit = gate.own;
                if (paused || rows >= 0) {
                    double perFile = wish == null ? FILE_ROWS : wish.rowsPerFile;
                    long share = Math.max(1, rows / gates.size());
                    long most = paused ? 0 : gate.files ? Math.max(1, (long) (share / perFile)) : share;
                    limit = gate.composed(most);
                    limit = limit == null ? gate.own : limit;
                }
                if (!limit.equals(gate.now)) {
                    gate.set(limit);
                    changed = (scala.collection.immutable.Map) changed.updated(gate.source, limit);
                }
            }
            if (changed != map) {
                query.getClass().getMethod("uniqueSources_$eq", new Class[] {scala.collection.immutable.Map.class})
                    .invoke(query, new Object[] {changed});
                limitBatchBeingPlanned();
            }
            setInterval(leased && wish != null ? wish.intervalMs : NONE);
            if (limited() && hold == null) {
                hold = watermarks.apply(query, this);
            }
        }

        /** A limit may come while a batch is being planned. The first one of a query can take seconds to plan. */
        private void limitBatchBeingPlanned() {
            if (progress() != null && progress().isLocked() && !progress().isHeldByCurrentThread()) {
                replanning.apply(query, new Supplier() {
                    public Object get() {
                        List pairs = new ArrayList();
                        for (int at = 0; at < gates.size(); at++) {
                            pairs.add(new Object[] {((Gate) gates.get(at)).source, ((Gate) gates.get(at)).now});
                        }
                        return pairs;
                    }
                });
            }
        }

        /** Is one of our limits in force, beyond the user's own? */
        boolean limited() {
            for (int at = 0; at < gates.size(); at++) {
                if (!((Gate) gates.get(at)).now.equals(((Gate) gates.get(at)).own)) {
                    return true;
                }
            }
            return false;
        }

        /** Someone waits in processAllAvailable: during a pause, it would return as if everything were processed. */
        synchronized void reopen() {
            try {
                if (paused) {
                    apply(lastWish, lastFirstRows, lastLeased);
                }
            } catch (Exception failed) {
                refusal = "its read limits could not be set: " + failed;
            }
        }

        /** The trigger computes its next time from a plain field, which it reads for every batch. */
        private void setInterval(long millis) throws Exception {
            if (millis < 0 && !touched) {
                return;
            }
            Object trigger = call(query, "triggerExecutor");
            Field field = trigger.getClass().getDeclaredField("intervalMs");
            field.setAccessible(true);
            if (!touched) {
                ownIntervalMs = field.getLong(trigger);
                touched = true;
            }
            long wanted = millis < 0 ? ownIntervalMs : millis;
            if (field.getLong(trigger) != wanted) {
                field.setLong(trigger, wanted);
            }
        }

        long intervalMs() {
            try {
                Object trigger = call(query, "triggerExecutor");
                Field field = trigger.getClass().getDeclaredField("intervalMs");
                field.setAccessible(true);
                return field.getLong(trigger);
            } catch (Exception unknown) {
                return NONE;
            }
        }

        /** "rows", "files", "mixed", or "pause" if it can only be paused; empty while the sources are not known. */
        String kind() {
            try {
                if (refusal == null) {
                    sources();
                }
            } catch (Exception failed) {
                refusal = "its sources cannot be read in this version of Spark: " + failed;
            }
            String kind = refusal == null && onlyPauses ? "pause" : "";
            for (int at = 0; refusal == null && !onlyPauses && at < gates.size(); at++) {
                String one = ((Gate) gates.get(at)).files ? "files" : "rows";
                kind = kind.isEmpty() || kind.equals(one) ? one : "mixed";
            }
            return kind;
        }

        /** The sum of the limits in force, of the sources that count rows or files; negative if one has no limit. */
        long inForce(boolean rows) {
            long sum = 0;
            boolean some = false;
            for (int at = 0; at < gates.size(); at++) {
                Gate gate = (Gate) gates.get(at);
                if (gate.files != rows) {
                    long most = mostOf(gate.now);
                    if (most < 0) {
                        return NONE;
                    }
                    sum += most;
                    some = true;
                }
            }
            return some ? sum : NONE;
        }
    }

    /**
     * Replaces the condition that processAllAvailable waits on. A waiting thread holds the lock that planning needs, so
     * a pause is lifted before another batch is planned. An empty batch would signal that everything is processed.
     */
    public static class Awaited implements Condition {
        private final Run run;
        private final Condition own;
        private int waiting;

        private Awaited(Run run, Condition own) {
            this.run = run;
            this.own = own;
        }

        static Awaited of(Run run) throws Exception {
            Condition own = (Condition) call(run.query, "awaitProgressLockCondition");
            own = own instanceof Awaited ? ((Awaited) own).own : own; // left by an earlier control
            Awaited awaited = new Awaited(run, own);
            Class kind = run.query.getClass();
            while (!kind.getSimpleName().equals("StreamExecution")) {
                kind = kind.getSuperclass();
            }
            Field field = kind.getDeclaredField("awaitProgressLockCondition");
            field.setAccessible(true);
            field.set(run.query, awaited);
            return awaited;
        }

        /** Does any thread wait, including those that started before the replacement? */
        boolean now() {
            synchronized (run) {
                if (waiting > 0) {
                    return true;
                }
            }
            ReentrantLock lock = run.progress();
            if (lock == null || !lock.tryLock()) {
                return false;
            }
            try {
                return lock.hasWaiters(own);
            } finally {
                lock.unlock();
            }
        }

        private void enter() {
            synchronized (run) {
                waiting++;
                run.reopen();
            }
        }

        private void leave() {
            synchronized (run) {
                waiting--;
            }
        }

        public void await() throws InterruptedException {
            enter();
            try {
                own.await();
            } finally {
                leave();
            }
        }

        public void awaitUninterruptibly() {
            enter();
            try {
                own.awaitUninterruptibly();
            } finally {
                leave();
            }
        }

        public long awaitNanos(long nanos) throws InterruptedException {
            enter();
            try {
                return own.awaitNanos(nanos);
            } finally {
                leave();
            }
        }

        public boolean await(long time, TimeUnit unit) throws InterruptedException {
            enter();
            try {
                return own.await(time, unit);
            } finally {
                leave();
            }
        }

        public boolean awaitUntil(Date deadline) throws InterruptedException {
            enter();
            try {
                return own.awaitUntil(deadline);
            } finally {
                leave();
            }
        }

        public void signal() {
            own.signal();
        }

        public void signalAll() {
            own.signalAll();
        }
    }
}
