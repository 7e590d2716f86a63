// A broker's receiver of clients' metrics (KIP-714): writes a line of JSON for each push to the file that `telemetry.file` names.

import java.io.FileWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.com.google.protobuf.InvalidProtocolBufferException;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.KeyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.Metric;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.NumberDataPoint;

public class TelemetryReceiver implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private String file;

    @Override public void configure(Map<String, ?> configs) { file = (String) configs.get("telemetry.file"); }
    @Override public void init(List<KafkaMetric> metrics) { }
    @Override public void metricChange(KafkaMetric metric) { }
    @Override public void metricRemoval(KafkaMetric metric) { }
    @Override public void close() { }
    @Override public ClientTelemetryReceiver clientReceiver() { return this; }

    @Override
    public synchronized void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        List<String> points = new ArrayList<>();
        List<String> resource = new ArrayList<>();
        try {
            MetricsData data = MetricsData.parseFrom(payload.data());
            data.getResourceMetricsList().forEach(of -> {
                of.getResource().getAttributesList().forEach(pair -> resource.add(text(pair)));
                of.getScopeMetricsList().forEach(scope -> scope.getMetricsList().forEach(metric -> add(metric, points)));
            });
        } catch (InvalidProtocolBufferException e) {
            points.add("\"not readable: " + e.getMessage() + "\"");
        }
        try (FileWriter out = new FileWriter(file, true)) {
            out.write("{\"client\":\"" + context.clientId() + "\",\"instance\":\"" + payload.clientInstanceId() + "\",\"terminating\":"
                + payload.isTerminating() + ",\"resource\":{" + String.join(",", resource) + "},\"points\":["
                + String.join(",", points) + "]}\n");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void add(Metric metric, List<String> points) {
        String kind = metric.hasSum() ? metric.getSum().getAggregationTemporality().name() : "GAUGE";
        for (NumberDataPoint point : metric.hasSum() ? metric.getSum().getDataPointsList() : metric.getGauge().getDataPointsList()) {
            List<String> attributes = new ArrayList<>();
            point.getAttributesList().forEach(pair -> attributes.add(text(pair)));
            points.add("[\"" + metric.getName() + "\",\"" + kind + "\"," + point.getAsDouble() + ",{" + String.join(",", attributes) + "}]");
        }
    }

    private static String text(KeyValue pair) {
        return "\"" + pair.getKey() + "\":\"" + pair.getValue().getStringValue() + "\"";
    }
}
