package tidegate;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiFunction;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;

/**
 * Limits a batch that Spark is already planning when its limit is set.
 *
 * Its sources were asked without the limit, and asking a broker for the first time takes a second or more. Before the
 * plan is written to the log, the planning thread reads the query's clock. There the Kafka sources are asked again, with
 * the limit. Other sources record every answer that they give, so they are not asked twice. Afterwards the query has its
 * own clock back. If this version of Spark does not allow it, the batch stays as it was planned.
 *
 * Compiled by Janino (see Watcher.java).
 */
public class Replanning implements BiFunction {
    /** Watch the batch that a query is planning. `limits` supplies a list of `{source, limit}`. */
    public Object apply(Object query, Object limits) {
        try {
            Field field = clockOf(query.getClass());
            Object clock = field.get(query);
            if (Proxy.isProxyClass(clock.getClass())) {
                return clock; // already watched
            }
            Watch watch = new Watch(query, (Supplier) limits, field, clock);
            Class kind = field.getType();
            field.set(query, Proxy.newProxyInstance(kind.getClassLoader(), new Class[] {kind}, watch));
            return watch;
        } catch (Exception unknown) {
            return null;
        }
    }

    private static Field clockOf(Class kind) throws NoSuchFieldException {
        for (Class each = kind; each != null; each = each.getSuperclass()) {
            Field[] fields = each.getDeclaredFields();
            for (int at = 0; at < fields.length; at++) {
                if (fields[at].getName().equals("triggerClock")) {
                    fields[at].setAccessible(true);
                    return fields[at];
                }
            }
        }
        throw new NoSuchFieldException("triggerClock");
    }

    static Object call(Object target, String method) throws Exception {
        return target.getClass().getMethod(method, new Class[0]).invoke(target, new Object[0]);
    }

    /** Stands in for the query's clock until the batch is planned. */
    public static class Watch implements InvocationHandler {
        private final Object query;
        private final Supplier limits;
        private final Field field;
        private final Object clock;

        Watch(Object query, Supplier limits, Field field, Object clock) {
            this.query = query;
            this.limits = limits;
            this.field = field;
            this.clock = clock;
        }

        public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
            try {
                ReentrantLock planning = (ReentrantLock) call(query, "awaitProgressLock");
                if (planning.isHeldByCurrentThread() && replanned()) {
                    field.set(query, clock);
                }
            } catch (Exception unknown) {
                field.set(query, clock); // the batch stays as it was planned
            }
            try {
                return method.invoke(clock, arguments);
            } catch (InvocationTargetException failed) {
                throw failed.getCause();
            }
        }

        /** False while the sources have not answered yet. A batch that is in the log is never changed. */
        private boolean replanned() throws Exception {
            Object plan = plan();
            boolean own = plan == query;
            long batch = ((Long) call(plan, own ? "currentBatchId" : "batchId")).longValue();
            scala.Option logged = (scala.Option) call(call(query, "offsetLog"), "getLatestBatchId");
            if (logged.isDefined() && ((Long) logged.get()).longValue() >= batch) {
                return true;
            }
            Object ends = call(plan, own ? "availableOffsets" : "endOffsets");
            Object starts = call(plan, own ? "committedOffsets" : "startOffsets");
            if (ends.equals(starts)) {
                return false;
            }
            scala.collection.immutable.Map begun = (scala.collection.immutable.Map) call(starts, "baseMap");
            scala.collection.immutable.Map changed = (scala.collection.immutable.Map) call(ends, "baseMap");
            List each = (List) limits.get();
            for (int at = 0; at < each.size(); at++) {
                Object[] pair = (Object[]) each.get(at);
                if (pair[0].getClass().getName().equals("org.apache.spark.sql.kafka010.KafkaMicroBatchStream")) {
                    MicroBatchStream source = (MicroBatchStream) pair[0];
                    scala.Option known = begun.get(source);
                    Offset from = known.isDefined() ? source.deserializeOffset(((Offset) known.get()).json()) : source.initialOffset();
                    Offset upTo = ((SupportsAdmissionControl) source).latestOffset(from, (ReadLimit) pair[1]);
                    changed = (scala.collection.immutable.Map) changed.updated(source, upTo);
                }
            }
            Object limited = ends.getClass().getConstructor(new Class[] {scala.collection.immutable.Map.class})
                .newInstance(new Object[] {changed});
            plan.getClass().getMethod(own ? "availableOffsets_$eq" : "endOffsets_$eq", new Class[] {ends.getClass()})
                .invoke(plan, new Object[] {limited});
            return true;
        }

        /** Where the offsets of the batch are kept: in the query itself before Spark 4.0. */
        private Object plan() throws Exception {
            try {
                return call(query, "getLatestExecutionContext");
            } catch (NoSuchMethodException before) {
                return query;
            }
        }
    }
}
