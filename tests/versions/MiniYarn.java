import java.io.FileOutputStream;
import java.io.OutputStream;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A resource manager with two node managers in one process. Argument: the folder for its configuration. */
public class MiniYarn {
    public static void main(String[] arguments) throws Exception {
        YarnConfiguration settings = new YarnConfiguration();
        // The capacity scheduler, which is the default, wants a file of queues.
        settings.set(
            YarnConfiguration.RM_SCHEDULER,
            "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler");
        settings.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 128);
        settings.setInt(YarnConfiguration.RM_SCHEDULER_MAXIMUM_ALLOCATION_MB, 4096);
        settings.setInt(YarnConfiguration.NM_PMEM_MB, 6144);
        settings.setInt(YarnConfiguration.NM_VCORES, 8);
        settings.setBoolean(YarnConfiguration.NM_VMEM_CHECK_ENABLED, false);
        settings.setBoolean(YarnConfiguration.NM_PMEM_CHECK_ENABLED, false);
        settings.setBoolean(YarnConfiguration.NM_DISK_HEALTH_CHECK_ENABLE, false);
        MiniYARNCluster cluster = new MiniYARNCluster("tidegate", 2, 1, 1);
        cluster.init(settings);
        cluster.start();
        try (OutputStream file = new FileOutputStream(arguments[0] + "/yarn-site.xml")) {
            cluster.getConfig().writeXml(file);
        }
        System.out.println("READY");
        System.out.flush();
        Thread.sleep(Long.MAX_VALUE);
    }
}
