package tidegate;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;

/**
 * Keeps the watermark of a throttled query where it would be without the throttling.
 *
 * Without a limit, one batch takes everything available, and only then the watermark advances. With a limit, the first
 * part of a partition that is ahead of the others would advance it, and rows of the others would be dropped as too late.
 * The watermark is therefore held while there is backlog from the time when a limit first left rows behind. Then it
 * advances to where it was before any partition was read beyond that point, because later rows are not read evenly yet.
 *
 * Compiled by Janino (see Watcher.java).
 */
public class Watermarks implements BiFunction {
    private static final long NONE = -1;
    private static final int MOST_CACHED_FILES = 10000; // a file source caches no more entries of a listing

    /**
     * Insert a hold between a query and its watermark policy; null while it has none yet. `limits` supplies a list with
     * `{source, own limit, minimum rows or files that a batch was allowed since the last call}` for each source.
     */
    public Object apply(Object query, Object limits) {
        try {
            Object tracker = call(query, "watermarkTracker");
            if (tracker == null) {
                return null;
            }
            Field field = tracker.getClass().getDeclaredField("policy");
            field.setAccessible(true);
            Hold hold = new Hold(query, (Supplier) limits, field.get(tracker), tracker);
            Class kind = field.getType();
            field.set(tracker, Proxy.newProxyInstance(kind.getClassLoader(), new Class[] {kind}, hold));
            return hold;
        } catch (Exception unknown) {
            return this; // an unsupported version of Spark: do not try again
        }
    }

    static Object call(Object target, String method) throws Exception {
        return target.getClass().getMethod(method, new Class[0]).invoke(target, new Object[0]);
    }

    static Object field(Object target, String name) throws Exception {
        Class kind = target.getClass();
        while (kind != null) {
            Field[] fields = kind.getDeclaredFields();
            for (int at = 0; at < fields.length; at++) {
                if (fields[at].getName().equals(name)) {
                    fields[at].setAccessible(true);
                    return fields[at].get(target);
                }
            }
            kind = kind.getSuperclass();
        }
        throw new NoSuchFieldException(name);
    }

    /** Files that a file source read between two of its offsets. Every tenth entry of its log contains all before it. */
    static long files(Object source, long after, long upTo) throws Exception {
        Object log = field(source, "metadataLog");
        Object entries = log.getClass().getMethod("get", new Class[] {scala.Option.class, scala.Option.class})
            .invoke(log, new Object[] {scala.Option.apply(Long.valueOf(after + 1)), scala.Option.apply(Long.valueOf(upTo))});
        long count = 0;
        for (int at = 0; at < java.lang.reflect.Array.getLength(entries); at++) {
            count += java.lang.reflect.Array.getLength(((scala.Tuple2) java.lang.reflect.Array.get(entries, at))._2());
        }
        return count;
    }

    static long most(ReadLimit limit) {
        if (limit instanceof ReadMaxRows) {
            return ((ReadMaxRows) limit).maxRows();
        }
        if (limit instanceof ReadMaxFiles) {
            return ((ReadMaxFiles) limit).maxFiles();
        }
        if (limit instanceof CompositeReadLimit) {
            ReadLimit[] parts = ((CompositeReadLimit) limit).getReadLimits();
            for (int at = 0; at < parts.length; at++) {
                if (most(parts[at]) >= 0) {
                    return most(parts[at]);
                }
            }
        }
        return NONE;
    }

    /** Replaces the policy that chooses a query's watermark; called at the end of every batch. */
    public static class Hold implements InvocationHandler {
        private final Object query;
        private final Supplier limits;
        private final Object policy;
        private final Object tracker;
        private final Map files = new HashMap();
        private Map from; // where the hold started
        private Map target; // the end of the sources at that time; null while nothing is held
        private Object even; // the watermark of the last batch that read nothing beyond the target

        Hold(Object query, Supplier limits, Object policy, Object tracker) {
            this.query = query;
            this.limits = limits;
            this.policy = policy;
            this.tracker = tracker;
        }

        public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
            Object chosen = method.invoke(policy, arguments);
            if (!method.getName().equals("chooseGlobalWatermark")) {
                return chosen;
            }
            try {
                return held(chosen);
            } catch (Exception unknown) {
                target = null;
                return chosen;
            }
        }

        private Object held(Object chosen) throws Exception {
            List sources = (List) limits.get();
            boolean limited = false;
            Map read = new HashMap();
            Map there = new HashMap();
            for (int at = 0; at < sources.size(); at++) {
                Object[] source = (Object[]) sources.get(at);
                long least = ((Long) source[2]).longValue();
                long own = most((ReadLimit) source[1]);
                limited = limited || (least >= 0 && (own < 0 || least < own));
                reach(at + ":", source, read, there);
            }
            if (covers(read, there) || (target == null && !limited)) {
                target = null;
                from = read;
                return chosen;
            }
            Object now = call(tracker, "currentWatermark");
            if (target == null) {
                begin(from == null ? read : from, there, chosen);
                return now;
            }
            if (covers(target, read)) {
                even = chosen;
            }
            if (!covers(read, target) && !asMuchAsTheUsersOwn(sources, read)) {
                return now;
            }
            Object moved = even;
            begin(read, there, chosen);
            if (!limited) {
                target = null; // what remains now is left behind by the user's own limit
                return chosen;
            }
            return moved;
        }

        private void begin(Map start, Map there, Object chosen) {
            from = start;
            target = there;
            even = chosen;
        }

        /** Was as much read as the user's own limit allows per batch? The watermark would then advance as well. */
        private boolean asMuchAsTheUsersOwn(List sources, Map read) {
            for (int at = 0; at < sources.size(); at++) {
                long own = most((ReadLimit) ((Object[]) sources.get(at))[1]);
                long done = 0;
                boolean behind = false;
                Iterator each = read.entrySet().iterator();
                while (each.hasNext()) {
                    Map.Entry entry = (Map.Entry) each.next();
                    if (((String) entry.getKey()).startsWith(at + ":")) {
                        long now = number(entry.getValue());
                        done += now - number(from.get(entry.getKey()));
                        behind = behind || now < number(target.get(entry.getKey()));
                    }
                }
                if (behind && (own < 0 || done < own)) {
                    return false;
                }
            }
            return true;
        }

        /** How far a source was read, and how far it extends: increasing numbers, by partition. */
        private void reach(String prefix, Object[] source, Map read, Map there) throws Exception {
            JsonNode offset = json("availableOffsets", source[0]);
            if (offset == null) {
                return; // nothing was read from it yet
            }
            if (offset.has("logOffset")) {
                countFiles(prefix, source, offset.get("logOffset").asLong(), read, there);
            } else if (offset.has("reservoirVersion")) {
                read.put(prefix, Long.valueOf(offset.get("reservoirVersion").asLong()));
                there.put(prefix, Long.valueOf(deltaVersion(source[0]) + 1)); // past the newest version
            } else {
                numbers(prefix, offset, read);
                JsonNode latest = json("latestOffsets", source[0]);
                numbers(prefix, latest == null ? offset : latest, there);
            }
        }

        private void countFiles(String prefix, Object[] source, long logOffset, Map read, Map there) throws Exception {
            long[] known = (long[]) files.get(prefix);
            if (known == null) {
                known = new long[] {logOffset - 1, 0};
                files.put(prefix, known);
            }
            long took = files(source[0], known[0], logOffset);
            known[0] = logOffset;
            known[1] += took;
            read.put(prefix, Long.valueOf(known[1]));
            there.put(prefix, Long.valueOf(known[1] + filesLeft(source, took)));
        }

        /** Files remaining in the last listing; listed again if Spark has discarded the rest of it. */
        private static long filesLeft(Object[] source, long took) throws Exception {
            scala.collection.Seq unread = (scala.collection.Seq) field(source[0], "unreadFiles");
            long least = ((Long) source[2]).longValue();
            if (unread != null && unread.size() < MOST_CACHED_FILES) {
                return unread.size();
            }
            if (unread == null && (least < 0 || took < least)) {
                return 0; // it took less than it was allowed, so there was no more
            }
            Method list = source[0].getClass().getDeclaredMethod("fetchAllFiles", new Class[0]);
            list.setAccessible(true);
            scala.collection.Iterator all = ((scala.collection.Iterable) list.invoke(source[0], new Object[0])).iterator();
            Object seen = field(source[0], "seenFiles");
            Method isNew = null;
            Method[] methods = seen.getClass().getMethods();
            for (int at = 0; at < methods.length; at++) {
                isNew = methods[at].getName().equals("isNewFile") ? methods[at] : isNew;
            }
            long left = 0;
            while (all.hasNext()) {
                scala.Product file = (scala.Product) all.next(); // path, then size if this version has it, then time
                Object time = file.productElement(file.productArity() - 1);
                left += Boolean.TRUE.equals(isNew.invoke(seen, new Object[] {file.productElement(0), time})) ? 1 : 0;
            }
            return left;
        }

        private static long deltaVersion(Object source) throws Exception {
            Object log = field(source, "deltaLog");
            Method update = null;
            Method[] methods = log.getClass().getMethods();
            for (int at = 0; at < methods.length; at++) {
                boolean more = update == null || methods[at].getParameterTypes().length > update.getParameterTypes().length;
                update = methods[at].getName().equals("update") && more ? methods[at] : update;
            }
            Object[] arguments = new Object[update.getParameterTypes().length];
            for (int at = 0; at < arguments.length; at++) {
                arguments[at] = call(log, "update$default$" + (at + 1));
            }
            return ((Number) call(update.invoke(log, arguments), "version")).longValue();
        }

        private JsonNode json(String progress, Object source) throws Exception {
            Object offsets = call(query, progress);
            scala.Option found = (scala.Option) offsets.getClass().getMethod("get", new Class[] {Object.class})
                .invoke(offsets, new Object[] {source});
            return found.isEmpty() || found.get() == null ? null : new ObjectMapper().readTree((String) call(found.get(), "json"));
        }

        private static void numbers(String path, JsonNode node, Map found) {
            if (node.isNumber()) {
                found.put(path, Long.valueOf(node.asLong()));
            }
            Iterator fields = node.fieldNames();
            while (fields.hasNext()) {
                String name = (String) fields.next();
                numbers(path + "/" + name, node.get(name), found);
            }
        }

        private static long number(Object value) {
            return value == null ? 0 : ((Number) value).longValue();
        }

        /** Is `one` at least as far as `other`, in every partition of `other`? */
        private static boolean covers(Map one, Map other) {
            Iterator each = other.entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry entry = (Map.Entry) each.next();
                if (one.get(entry.getKey()) == null || number(one.get(entry.getKey())) < number(entry.getValue())) {
                    return false;
                }
            }
            return true;
        }
    }
}
