package tidegate;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkEnv$;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.rdd.RDD;
import org.apache.spark.serializer.JavaSerializer;
import scala.Option;
import scala.reflect.ClassTag$;

/**
 * Warms a new executor before it gets tasks.
 *
 * Spark sends tasks to an executor only after its plugins are initialised. Here, `init` asks the driver for a rehearsal,
 * a small task with everything that most jobs use (generated code, Python workers, an aggregate), and runs one copy per
 * slot. Classes, the Java compiler and the Python workers are then ready. The executor registers later, but its first
 * batch is as fast as any other. If anything goes wrong, or takes too long, the executor starts cold, as it would
 * without this class.
 */
public class WarmUp implements SparkPlugin {
    private static final String ASK = "rehearsal";
    private static final long PATIENCE_MS = 15000;
    private static final long FIRST_TASK_ID = 1L << 48;

    /** In the driver: the task on offer, and how it went on each executor: "" if well. */
    private static volatile Object[] rehearsal = {};
    private static final Map REHEARSED = new ConcurrentHashMap();

    /** In the driver: "" if the executor's rehearsal went well, otherwise the error; null if it has had none. */
    public static String rehearsed(String executor) {
        return (String) REHEARSED.get(executor);
    }

    /** In the driver: an executor's error, or "". */
    public static String trouble() {
        Iterator reports = REHEARSED.values().iterator();
        String error = "";
        while (error.isEmpty() && reports.hasNext()) {
            error = (String) reports.next();
        }
        return error;
    }

    /** In the driver: from now on, new executors rehearse the first stage of this RDD, once per slot. */
    public static void offer(Object rdd, int slots) {
        RDD first = (RDD) rdd;
        RDD each = first;
        while (!each.dependencies().isEmpty()) {
            Dependency dependency = (Dependency) each.dependencies().head();
            each = dependency.rdd();
            first = dependency instanceof ShuffleDependency ? each : first;
        }
        Object[] task = {first, first.partitions()[0]};
        ByteBuffer bytes = new JavaSerializer(first.sparkContext().conf()).newInstance()
            .serialize(task, ClassTag$.MODULE$.apply(Object[].class));
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        rehearsal = new Object[] {copy, Integer.valueOf(slots)};
    }

    /** In the driver: from now on, new executors start without a rehearsal. How earlier ones went is forgotten. */
    public static void withdraw() {
        rehearsal = new Object[] {};
        REHEARSED.clear();
    }

    public DriverPlugin driverPlugin() {
        return new DriverPlugin() {
            public Map init(SparkContext sc, PluginContext context) {
                REHEARSED.clear();
                rehearsal = new Object[] {};
                return Collections.emptyMap();
            }

            public Object receive(Object message) {
                if (message instanceof Object[]) {
                    Object[] report = (Object[]) message;
                    REHEARSED.put(report[0], report[1]);
                }
                return rehearsal;
            }
        };
    }

    public ExecutorPlugin executorPlugin() {
        return new ExecutorPlugin() {
            public void init(PluginContext context, Map extra) {
                try {
                    Object[] offered = (Object[]) context.ask(ASK);
                    if (offered.length != 0) {
                        context.send(new Object[] {context.executorID(), rehearse(context, offered)});
                    }
                } catch (Throwable error) {
                    System.err.println("tidegate: this executor starts cold: " + error);
                }
            }
        };
    }

    /** Runs one copy per slot. Returns the first error, or "". */
    private static String rehearse(PluginContext context, Object[] offered) throws Exception {
        final byte[] bytes = (byte[]) offered[0];
        final JavaSerializer serializer = new JavaSerializer(context.conf());
        final ConcurrentLinkedQueue errors = new ConcurrentLinkedQueue();
        final ClassLoader loader = Thread.currentThread().getContextClassLoader();
        Thread[] copies = new Thread[((Integer) offered[1]).intValue()];
        for (int slot = 0; slot < copies.length; slot++) {
            final long id = FIRST_TASK_ID + slot;
            copies[slot] = new Thread("tidegate-rehearsal-" + slot) {
                public void run() {
                    try {
                        runOnce(serializer, bytes, id, loader);
                    } catch (Throwable error) {
                        errors.add(error.toString());
                    }
                }
            };
            copies[slot].setDaemon(true);
            copies[slot].setContextClassLoader(loader);
            copies[slot].start();
        }
        long deadlineMs = System.currentTimeMillis() + PATIENCE_MS;
        for (int slot = 0; slot < copies.length; slot++) {
            copies[slot].join(Math.max(1, deadlineMs - System.currentTimeMillis()));
            if (copies[slot].isAlive()) {
                errors.add("it took longer than " + PATIENCE_MS + " ms");
            }
        }
        return errors.isEmpty() ? "" : (String) errors.peek();
    }

    private static void runOnce(JavaSerializer serializer, byte[] bytes, long id, ClassLoader loader) throws Throwable {
        TaskMemoryManager memory = new TaskMemoryManager(memoryManager(), id);
        TaskContextImpl context = context(memory, id);
        TaskContext$.MODULE$.setTaskContext(context);
        try {
            Object[] task = (Object[]) serializer.newInstance().deserialize(
                ByteBuffer.wrap(bytes), loader, ClassTag$.MODULE$.apply(Object[].class));
            scala.collection.Iterator rows = ((RDD) task[0]).iterator((Partition) task[1], context);
            while (rows.hasNext()) {
                rows.next();
            }
        } finally {
            context.markTaskCompleted(Option.apply(null));
            memory.cleanUpAllAllocatedMemory();
            TaskContext$.MODULE$.unset();
        }
    }

    /** A context like that of a real task. The parameters of its constructor differ between versions of Spark. */
    private static TaskContextImpl context(TaskMemoryManager memory, long id) throws Exception {
        Constructor[] all = TaskContextImpl.class.getConstructors();
        Constructor constructor = all[0];
        for (int place = 1; place < all.length; place++) {
            if (all[place].getParameterTypes().length > constructor.getParameterTypes().length) {
                constructor = all[place];
            }
        }
        Class[] types = constructor.getParameterTypes();
        Object[] given = new Object[types.length];
        TaskContextImpl empty = TaskContext$.MODULE$.empty();
        for (int place = 0; place < types.length; place++) {
            if (types[place] == int.class) {
                given[place] = Integer.valueOf(place == 5 ? 1 : 0);
            } else if (types[place] == long.class) {
                given[place] = Long.valueOf(id);
            } else if (types[place] == TaskMemoryManager.class) {
                given[place] = memory;
            } else if (types[place] == Properties.class) {
                given[place] = new Properties();
            } else if (types[place] == TaskMetrics.class) {
                given[place] = empty.taskMetrics();
            } else if (types[place] == scala.math.BigDecimal.class) {
                given[place] = scala.math.BigDecimal.javaBigDecimal2bigDecimal(java.math.BigDecimal.ONE);
            } else if (scala.collection.immutable.Map.class.isAssignableFrom(types[place])) {
                given[place] = empty.resources();
            } // the metrics system is only used by sources of metrics, which a rehearsal has none of
        }
        return (TaskContextImpl) constructor.newInstance(given);
    }

    /** By a handle, because reflection over all methods of SparkEnv needs a library that not every Spark has. */
    private static MemoryManager memoryManager() throws Throwable {
        MethodHandle getter = MethodHandles.publicLookup()
            .findVirtual(SparkEnv.class, "memoryManager", MethodType.methodType(MemoryManager.class));
        return (MemoryManager) getter.invokeWithArguments(new Object[] {SparkEnv$.MODULE$.get()});
    }
}
