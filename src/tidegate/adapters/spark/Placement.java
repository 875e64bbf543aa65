package tidegate;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.spark.sql.execution.streaming.state.StateStoreCoordinatorRef;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Option;
import scala.collection.immutable.Nil$;

/**
 * The state partitions of one run of a query: which executor holds each, and how to move them to another.
 *
 * The driver's coordinator knows where every state store was last used, and the next batch's tasks prefer that place. A
 * move changes this. In the middle of a batch, the old executor might then unload a store that is in use. Moves are
 * therefore made under the lock that the query needs to start a batch, and only while no trigger is active. The query
 * signals the lock's condition at the end of every trigger, and the lock is fair, so the end of a batch is never missed.
 */
public class Placement {
    private static final String[] NAMES = {
        "default",
        "left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue",
        "left-keyWithTsToValues", "left-tsWithKey", "right-keyWithTsToValues", "right-tsWithKey",
    };

    private final StreamingQuery query;
    private final StateStoreCoordinatorRef coordinator;
    private final String root;
    private final int operators;
    private final int partitions;
    private final ReentrantLock lock;
    private final Condition triggerEnded;
    private final String[][] stores;
    private final String[] before;
    private final long[] movedAfter;
    private String asked = "";
    private boolean waiting = false;

    public Placement(
        Object query, Object coordinator, String root, int operators, int partitions, Object lock, Object triggerEnded
    ) {
        this.query = (StreamingQuery) query;
        this.coordinator = (StateStoreCoordinatorRef) coordinator;
        this.root = root;
        this.operators = operators;
        this.partitions = partitions;
        this.lock = (ReentrantLock) lock;
        this.triggerEnded = (Condition) triggerEnded;
        this.stores = new String[operators][];
        this.before = new String[partitions];
        this.movedAfter = new long[partitions];
        java.util.Arrays.fill(movedAfter, -1);
    }

    /**
     * The executor of each partition, comma-separated; empty if no executor has it, or if its stores are separated.
     *
     * First where the next batch will look for it, then, after a semicolon, where the last batch ran it. They differ
     * between a move and the end of the next batch.
     */
    public synchronized String where() {
        StringBuilder next = new StringBuilder();
        StringBuilder last = new StringBuilder();
        long begun = batchBegun();
        long ended = query.status().isTriggerActive() ? begun - 1 : begun;
        for (int partition = 0; partition < partitions; partition++) {
            String place = placeOf(partition);
            next.append(partition == 0 ? "" : ",").append(place);
            last.append(partition == 0 ? "" : ",").append(movedAfter[partition] < ended ? place : before[partition]);
        }
        return next.append(';').append(last).toString();
    }

    private String placeOf(int partition) {
        String found = null;
        for (int operator = 0; operator < operators; operator++) {
            String[] names = storesOf(operator);
            for (int name = 0; name < names.length; name++) {
                String place = placeOf(operator, partition, names[name]);
                if (place != null) {
                    found = found == null || found.equals(place) ? place : "";
                }
            }
        }
        return found == null ? "" : found;
    }

    /** The newest planned batch. Once it is over, its tasks have run. */
    private long batchBegun() {
        try {
            Object execution = query.getClass().getMethod("lastExecution", new Class[0]).invoke(query, new Object[0]);
            Object batch = execution.getClass().getMethod("currentBatchId", new Class[0]).invoke(execution, new Object[0]);
            return ((Long) batch).longValue();
        } catch (Exception unknown) {
            throw new IllegalStateException(unknown);
        }
    }

    /**
     * Make these moves ("partition:executor:host", comma-separated) when the running batch ends, or now if none runs.
     * They replace moves that still wait. Returns true if they have been made.
     */
    public boolean move(String moves, long patienceMs) {
        synchronized (this) {
            asked = moves;
            if (waiting) {
                return false;
            }
        }
        if (lock.tryLock()) {
            try {
                if (!query.status().isTriggerActive()) {
                    report();
                    return true;
                }
            } finally {
                lock.unlock();
            }
        }
        synchronized (this) {
            waiting = true;
        }
        Thread thread = new Thread(new Waiting(this, patienceMs), "tidegate-state-moves");
        thread.setDaemon(true);
        thread.start();
        return false;
    }

    /** Cancel the moves that still wait. */
    public synchronized void forget() {
        asked = "";
    }

    /** Wait for the end of the running batch, and make the moves before the next one can start. */
    void await(long patienceMs) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patienceMs);
        boolean ended = false;
        lock.lock();
        try {
            while (query.isActive() && System.nanoTime() < deadline) {
                if (ended || !query.status().isTriggerActive()) {
                    report();
                    return;
                }
                ended = triggerEnded.await(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            }
        } finally {
            synchronized (this) {
                waiting = false;
            }
            lock.unlock();
        }
    }

    /** All operators and stores of a partition move together, because a join's task uses several. */
    private synchronized void report() {
        String[] moves = asked.isEmpty() ? new String[0] : asked.split(",");
        asked = "";
        for (int each = 0; each < moves.length; each++) {
            String[] move = moves[each].split(":", 3);
            int partition = Integer.parseInt(move[0]);
            before[partition] = placeOf(partition);
            movedAfter[partition] = batchBegun();
            for (int operator = 0; operator < operators; operator++) {
                String[] names = storesOf(operator);
                for (int name = 0; name < names.length; name++) {
                    coordinator.reportActiveInstance(
                        store(operator, partition, names[name]), move[2], move[1], Nil$.MODULE$
                    );
                }
            }
        }
    }

    /** The stores of an operator that are in use. All partitions have the same, so the first one is checked. */
    private synchronized String[] storesOf(int operator) {
        if (stores[operator] == null) {
            StringBuilder found = new StringBuilder();
            for (int name = 0; name < NAMES.length; name++) {
                if (placeOf(operator, 0, NAMES[name]) != null) {
                    found.append(found.length() == 0 ? "" : ",").append(NAMES[name]);
                }
            }
            if (found.length() == 0) {
                return new String[0];
            }
            stores[operator] = found.toString().split(",");
        }
        return stores[operator];
    }

    private StateStoreProviderId store(int operator, int partition, String name) {
        return new StateStoreProviderId(new StateStoreId(root, operator, partition, name), query.runId());
    }

    /** The executor that last used a store. The coordinator answers "executor_HOST_ID". */
    private String placeOf(int operator, int partition, String name) {
        Option place = coordinator.getLocation(store(operator, partition, name));
        if (place.isEmpty()) {
            return null;
        }
        String text = (String) place.get();
        return text.substring(text.lastIndexOf('_') + 1);
    }

    /** Waits in another thread for the end of one batch. */
    public static class Waiting implements Runnable {
        private final Placement placement;
        private final long patienceMs;

        Waiting(Placement placement, long patienceMs) {
            this.placement = placement;
            this.patienceMs = patienceMs;
        }

        public void run() {
            try {
                placement.await(patienceMs);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
