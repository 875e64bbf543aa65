package tidegate;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Asks the brokers for the end offsets of running queries' topics, with each query's own connection settings.
 *
 * Spark asks only when it plans a batch, and batches may be minutes apart. This class asks every second, in its own
 * thread, and answers with lines that watcher.py reads. Compiled by Janino together with the connector's own classes.
 */
public class KafkaEnds implements Runnable, Supplier {
    private static final long EVERY_MS = 1000;
    private static final long PARTITIONS_EVERY_MS = 30000;
    private static final long TIMEOUT_MS = 10000;
    private static final long[] BACK_S = {
        604800, 259200, 86400, 43200, 21600, 7200, 3600, 1800, 1200, 900, 600, 420, 300, 240, 180, 150, 120, 105, 90, 75, 60, 50,
        40, 30, 25, 20, 16, 12, 9, 7, 5, 4, 3, 2, 1
    };

    private final Map followed = new HashMap();
    private final List ended = new ArrayList();
    private final List lines = new ArrayList();
    private boolean running;

    /** Track the topics of a run's sources, given by their place among all its sources. Their progress is committed to the consumer group; empty for none. */
    public synchronized void follow(String run, Map sources, String group) throws Exception {
        if (followed.containsKey(run)) {
            return;
        }
        Map all = new HashMap();
        ClassLoader loader = null;
        Iterator each = sources.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            all.put(entry.getKey(), new Followed(run, (Integer) entry.getKey(), entry.getValue(), group));
            loader = entry.getValue().getClass().getClassLoader();
        }
        followed.put(run, all);
        if (!running) {
            running = true;
            Thread thread = new Thread(this, "tidegate-kafka");
            thread.setDaemon(true);
            thread.setContextClassLoader(loader);
            thread.start();
        }
    }

    /** Drop all runs except these. */
    public synchronized void keep(Collection runs) {
        Iterator each = followed.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            if (!runs.contains(entry.getKey())) {
                ended.addAll(((Map) entry.getValue()).values()); // closed by the thread, which may be asking now
                each.remove();
            }
        }
    }

    /** A source's rows up to these offsets are committed: commit them to the consumer group, if one is named. */
    public synchronized void committed(String run, int place, Map offsets) {
        Map all = (Map) followed.get(run);
        Followed one = all == null ? null : (Followed) all.get(Integer.valueOf(place));
        if (one != null && !one.group.isEmpty()) {
            one.toCommit = offsets;
        }
    }

    public synchronized Object get() {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < lines.size(); at++) {
            text.append((String) lines.get(at)).append('\n');
        }
        lines.clear();
        return text.toString();
    }

    synchronized void report(String line) {
        if (lines.size() < 2000) {
            lines.add(line);
        }
    }

    public void run() {
        while (true) {
            List all;
            List over;
            synchronized (this) {
                over = new ArrayList(ended);
                ended.clear();
                if (followed.isEmpty() && over.isEmpty()) {
                    running = false;
                    return;
                }
                all = new ArrayList();
                Iterator each = followed.values().iterator();
                while (each.hasNext()) {
                    all.addAll(((Map) each.next()).values());
                }
            }
            for (int at = 0; at < over.size(); at++) {
                ((Followed) over.get(at)).close();
            }
            for (int at = 0; at < all.size(); at++) {
                ((Followed) all.get(at)).ask(this);
            }
            try {
                Thread.sleep(EVERY_MS);
            } catch (InterruptedException over) {
                return;
            }
        }
    }

    /** The topics of one source of a run. */
    public static class Followed {
        final String run;
        final Integer place;
        final String group;
        volatile Map toCommit;
        private final Object strategy;
        private final Map parameters;
        private Admin admin;
        private Set partitions;
        private long partitionsMs;
        private Map retentionMs = new TreeMap();
        private String error = "";

        Followed(String run, Integer place, Object source, String group) throws Exception {
            this.run = run;
            this.place = place;
            this.group = group;
            Object reader = field(source, "kafkaOffsetReader", "kafkaReader");
            this.strategy = field(reader, "consumerStrategy", "consumerStrategy");
            this.parameters = (Map) reader.getClass().getMethod("driverKafkaParams", new Class[0]).invoke(reader, new Object[0]);
        }

        void ask(KafkaEnds ends) {
            try {
                boolean first = admin == null;
                if (first) {
                    admin = (Admin) strategy.getClass().getMethod("createAdmin", new Class[] {Map.class})
                        .invoke(strategy, new Object[] {parameters});
                }
                long now = System.currentTimeMillis();
                if (partitions == null || now - partitionsMs > PARTITIONS_EVERY_MS) {
                    partitions = assigned();
                    partitionsMs = now;
                    retentionMs = retention();
                }
                if (first) {
                    for (int at = 0; at < BACK_S.length; at++) {
                        long time = now - BACK_S[at] * 1000;
                        ends.report(line("H", time, offsets(OffsetSpec.forTimestamp(time))));
                    }
                }
                now = System.currentTimeMillis();
                ends.report(line("K", now, offsets(OffsetSpec.latest())));
                commit();
                error = "";
            } catch (Throwable failed) {
                String said = String.valueOf(failed.getCause() == null ? failed : failed.getCause());
                if (!said.equals(error)) {
                    ends.report("F\t" + run + "\t" + said.replace('\t', ' ').replace('\n', ' '));
                    error = said;
                }
                partitions = null;
            }
        }

        void close() {
            if (admin != null) {
                admin.close(java.time.Duration.ZERO);
                admin = null;
            }
        }

        private Set assigned() throws Exception {
            Object found = strategy.getClass().getMethod("assignedTopicPartitions", new Class[] {Admin.class})
                .invoke(strategy, new Object[] {admin});
            Set all = new HashSet();
            scala.collection.Iterator each = ((scala.collection.Iterable) found).iterator();
            while (each.hasNext()) {
                all.add(each.next());
            }
            return all;
        }

        /** Offsets by partition. For a time after the last record there is no offset, so the partition is omitted. */
        private Map offsets(OffsetSpec spec) throws Exception {
            Map wanted = new HashMap();
            Iterator each = partitions.iterator();
            while (each.hasNext()) {
                wanted.put(each.next(), spec);
            }
            boolean committed = "read_committed".equals(parameters.get("isolation.level"));
            ListOffsetsOptions options = new ListOffsetsOptions(committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED);
            Map answers = (Map) admin.listOffsets(wanted, options).all().get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
            Map found = new HashMap();
            each = answers.entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry entry = (Map.Entry) each.next();
                long offset = ((ListOffsetsResult.ListOffsetsResultInfo) entry.getValue()).offset();
                if (offset >= 0) {
                    found.put(entry.getKey(), Long.valueOf(offset));
                }
            }
            return found;
        }

        /** The time after which each topic may delete a record, in milliseconds; without those that keep them. */
        private Map retention() {
            Map found = new TreeMap();
            try {
                Set resources = new HashSet();
                Iterator each = partitions.iterator();
                while (each.hasNext()) {
                    resources.add(new ConfigResource(ConfigResource.Type.TOPIC, ((TopicPartition) each.next()).topic()));
                }
                Map configs = (Map) admin.describeConfigs(resources).all().get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
                each = configs.entrySet().iterator();
                while (each.hasNext()) {
                    Map.Entry entry = (Map.Entry) each.next();
                    ConfigEntry kept = ((Config) entry.getValue()).get("retention.ms");
                    long millis = kept == null ? -1 : Long.parseLong(kept.value());
                    if (millis >= 0) {
                        found.put(((ConfigResource) entry.getKey()).name(), Long.valueOf(millis));
                    }
                }
            } catch (Exception forbidden) {
                found.clear(); // reading a topic's settings needs a separate permission
            }
            return found;
        }

        private void commit() throws Exception {
            Map offsets = toCommit;
            if (offsets == null) {
                return;
            }
            Map wanted = new HashMap();
            Iterator each = offsets.entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry entry = (Map.Entry) each.next();
                String name = (String) entry.getKey();
                int dash = name.lastIndexOf('-');
                TopicPartition partition = new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
                wanted.put(partition, new OffsetAndMetadata(((Number) entry.getValue()).longValue()));
            }
            admin.alterConsumerGroupOffsets(group, wanted).all().get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
            toCommit = toCommit == offsets ? null : toCommit;
        }

        private String line(String kind, long time, Map offsets) {
            Map topics = new TreeMap();
            Iterator each = offsets.entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry entry = (Map.Entry) each.next();
                TopicPartition partition = (TopicPartition) entry.getKey();
                StringBuilder text = (StringBuilder) topics.get(partition.topic());
                if (text == null) {
                    text = new StringBuilder();
                    topics.put(partition.topic(), text);
                }
                text.append(text.length() == 0 ? "" : ",").append('"').append(partition.partition()).append("\":").append(entry.getValue());
            }
            each = topics.entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry entry = (Map.Entry) each.next();
                entry.setValue("{" + entry.getValue() + "}");
            }
            return kind + "\t" + run + "\t" + place + "\t" + time + "\t" + json(retentionMs) + "\t" + json(topics);
        }

        private static String json(Map values) {
            StringBuilder text = new StringBuilder();
            Iterator each = values.entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry entry = (Map.Entry) each.next();
                text.append(text.length() == 0 ? "" : ",").append('"').append(entry.getKey()).append("\":").append(entry.getValue());
            }
            return "{" + text + "}";
        }

        private static Object field(Object target, String name, String other) throws Exception {
            Class kind = target.getClass();
            while (kind != null) {
                Field[] fields = kind.getDeclaredFields();
                for (int at = 0; at < fields.length; at++) {
                    if (fields[at].getName().equals(name) || fields[at].getName().equals(other)) {
                        fields[at].setAccessible(true);
                        return fields[at].get(target);
                    }
                }
                kind = kind.getSuperclass();
            }
            throw new NoSuchFieldException(name);
        }
    }
}
