import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends records with the Java producer of any release since 0.10, and so uses no newer API. Arguments: topic, then settings as key=value.
 * Standard input has a record per line, "partition timestamp key value"; bytes are base64, "-" is null (or: not given).
 * Standard output has "partition offset timestamp" for each.
 */
public class Writer {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = System.out;
        System.setOut(System.err);
        Properties properties = new Properties();
        for (int n = 1; n < args.length; n++) {
            properties.put(args[n].substring(0, args[n].indexOf('=')), args[n].substring(args[n].indexOf('=') + 1));
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split(" ", -1);
                Integer partition = words[0].equals("-") ? null : Integer.valueOf(words[0]);
                Long timestamp = words[1].equals("-") ? null : Long.valueOf(words[1]);
                sent.add(producer.send(new ProducerRecord<>(args[0], partition, timestamp, bytes(words[2]), bytes(words[3]))));
            }
        }
        for (Future<RecordMetadata> one : sent) {
            out.println(one.get().partition() + " " + one.get().offset() + " " + one.get().timestamp());
        }
        out.flush();
    }

    static byte[] bytes(String word) {
        return word.equals("-") ? null : Base64.getDecoder().decode(word);
    }
}
