import java.io.*;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

/** Kafka's own codecs on lines of text. Rule: one line in, one line out, bytes as hex, "!" and the reason where Kafka refuses. */
public class Peer {
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" "));
            } catch (Exception e) {
                answer = "!" + e.toString().replace('\n', ' ');
            }
            System.out.println(answer);
        }
    }

    static String answer(String[] words) {
        return switch (words[0]) {
            case "request", "response", "data" -> again(words);
            case "records" -> records(bytes(words[1]));
            case "partition" -> "=" + BuiltInPartitioner.partitionForKey(HEX.parseHex(words.length > 2 ? words[2] : ""), Integer.parseInt(words[1]));
            case "unpack" -> unpack(CompressionType.forId(Integer.parseInt(words[1])), bytes(words.length > 2 ? words[2] : ""));
            case "build" -> build(Byte.parseByte(words[1]), CompressionType.forName(words[2]));
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    static ByteBuffer bytes(String hex) {
        return ByteBuffer.wrap(HEX.parseHex(hex));
    }

    /** Read a message and write it again. */
    static String again(String[] words) {
        short version = Short.parseShort(words[2]);
        Message message = switch (words[0]) {
            case "request" -> ApiMessageType.fromApiKey(Short.parseShort(words[1])).newRequest();
            case "response" -> ApiMessageType.fromApiKey(Short.parseShort(words[1])).newResponse();
            default -> words[1].equals("ConsumerProtocolSubscription") ? new ConsumerProtocolSubscription() : new ConsumerProtocolAssignment();
        };
        ByteBuffer given = words.length > 3 ? bytes(words[3]) : ByteBuffer.allocate(0);
        message.read(new ByteBufferAccessor(given), version);
        if (given.hasRemaining())
            throw new IllegalArgumentException(given.remaining() + " bytes left");
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(out), cache, version);
        return "=" + HEX.formatHex(out.array());
    }

    /** offset/timestamp/timestamp type/key/value/header/header… of each record. */
    static String records(ByteBuffer data) {
        StringJoiner out = new StringJoiner(" ", "=", "");
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(data).batches()) {
            batch.ensureValid();
            try (CloseableIterator<org.apache.kafka.common.record.internal.Record> all = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
                while (all.hasNext())
                    out.add(text(batch, all.next()));
            }
        }
        return out.toString();
    }

    static String text(RecordBatch batch, org.apache.kafka.common.record.internal.Record record) {
        StringJoiner out = new StringJoiner("/");
        out.add("" + record.offset()).add("" + record.timestamp()).add("" + batch.timestampType().id);
        out.add("" + batch.producerId()).add("" + record.sequence());
        out.add(hex(record.key())).add(hex(record.value()));
        for (Header header : record.headers())
            out.add(HEX.formatHex(header.key().getBytes()) + ":" + hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
        return out.toString();
    }

    static String hex(ByteBuffer data) {
        return data == null ? "null" : HEX.formatHex(Utils.toArray(data));
    }

    static String unpack(CompressionType type, ByteBuffer data) {
        try (InputStream in = Compression.of(type).build().wrapForInput(data, (byte) 2, BufferSupplier.NO_CACHING)) {
            return "=" + HEX.formatHex(in.readAllBytes());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static String build(byte magic, CompressionType type) {
        List<SimpleRecord> records = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            Header[] headers = magic == 2 && i % 3 == 0 ? new Header[] {new RecordHeader("h" + i, i % 2 == 0 ? null : new byte[] {1})} : new Header[0];
            byte[] key = i % 4 == 0 ? null : ("k" + i).getBytes();
            byte[] value = i % 5 == 0 ? null : new byte[i * 100];
            records.add(new SimpleRecord(1000 + i, key, value, headers));
        }
        MemoryRecords made = MemoryRecords.withRecords(magic, 40L, Compression.of(type).build(), TimestampType.CREATE_TIME, records.toArray(new SimpleRecord[0]));
        return "=" + HEX.formatHex(Utils.toArray(made.buffer()));
    }
}
