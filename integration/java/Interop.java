import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.stream.Collectors;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Runs Kafka's own Java client by JSON lines, with bytes as base64 and null as null, which the console tools cannot tell from empty.
 * The first line of standard input is the order, {"mode", "topic", "properties", ...}; produce then reads one record per line.
 * Run from source: java -cp JARS Interop.java
 */
public class Interop {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8), 1 << 20);
        System.setOut(new PrintStream(System.err, true));
        JsonNode order = JSON.readTree(in.readLine());
        Properties properties = new Properties();
        order.get("properties").fields().forEachRemaining(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        if (order.get("mode").asText().equals("produce")) {
            produce(order, properties, in, out);
        } else {
            consume(order, properties, out);
        }
        out.flush();
    }

    static void produce(JsonNode order, Properties properties, BufferedReader in, BufferedWriter out) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        JsonNode perTransaction = order.get("transaction");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (!perTransaction.isNull()) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                sent.add(producer.send(record(order.get("topic").asText(), JSON.readTree(line))));
            }
            if (perTransaction.asText().equals("commit")) {
                producer.commitTransaction();
            } else if (perTransaction.asText().equals("abort")) {
                producer.flush();
                producer.abortTransaction();
            }
        }
        for (Future<RecordMetadata> one : sent) {
            RecordMetadata metadata = one.get();
            line(out, JSON.createObjectNode().put("partition", metadata.partition()).put("offset", metadata.offset()).put("timestamp", metadata.timestamp()));
        }
    }

    static ProducerRecord<byte[], byte[]> record(String topic, JsonNode row) {
        Integer partition = row.get("partition").isNull() ? null : row.get("partition").asInt();
        Long timestamp = row.get("timestamp").isNull() ? null : row.get("timestamp").asLong();
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, partition, timestamp, bytes(row.get("key")), bytes(row.get("value")));
        row.get("headers").forEach(header -> record.headers().add(header.get(0).asText(), bytes(header.get(1))));
        return record;
    }

    static void consume(JsonNode order, Properties properties, BufferedWriter out) throws Exception {
        String topic = order.get("topic").asText();
        boolean grouped = properties.containsKey("group.id");
        long wanted = order.get("count").isNull() ? Long.MAX_VALUE : order.get("count").asLong();
        long deadline = System.nanoTime() + (long) (order.get("timeout").asDouble() * 1e9);
        long seen = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            Map<TopicPartition, Long> ends = Map.of();
            if (grouped) {
                consumer.subscribe(List.of(topic));
            } else {
                List<TopicPartition> all = consumer.partitionsFor(topic).stream().map(info -> new TopicPartition(topic, info.partition())).collect(Collectors.toList());
                consumer.assign(all);
                consumer.seekToBeginning(all);
                ends = consumer.endOffsets(all);
            }
            while (seen < wanted && System.nanoTime() < deadline && (grouped || !atEnd(consumer, ends))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    line(out, row(record));
                    seen++;
                }
            }
            if (grouped) {
                consumer.commitSync();
            } else if (seen < wanted && !atEnd(consumer, ends)) {
                throw new IllegalStateException("timeout: " + seen + " records read, the end " + ends + " not reached");
            }
        }
    }

    static boolean atEnd(KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, Long> ends) {
        return ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) >= end.getValue());
    }

    static ObjectNode row(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode row = JSON.createObjectNode();
        row.put("partition", record.partition()).put("offset", record.offset()).put("timestamp", record.timestamp());
        row.put("timestamp_type", record.timestampType().name).put("leader_epoch", record.leaderEpoch().orElse(-1));
        row.put("key", text(record.key())).put("value", text(record.value()));
        ArrayNode headers = row.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return row;
    }

    static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    static void line(BufferedWriter out, ObjectNode row) throws Exception {
        out.write(JSON.writeValueAsString(row));
        out.write('\n');
    }
}
