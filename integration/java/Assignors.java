import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Runs Kafka's own assignors by JSON lines: a group in, the assignments out. integration/java/assignors.py describes both.
 * The assignors get the same input as from ConsumerCoordinator: the members in a HashMap, put in the order of the coordinator's list.
 */
public class Assignors {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8), 1 << 20);
        System.setOut(new PrintStream(System.err, true));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode group = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            ObjectNode nanos = JSON.createObjectNode();
            for (String name : List.of("range", "roundrobin", "sticky", "cooperative-sticky")) {
                if (group.has("only") && !group.get("only").asText().equals(name))
                    continue;
                long start = System.nanoTime();
                try {
                    answer.set(name, assign(group, name));
                } catch (RuntimeException e) {
                    answer.put(name, e.toString().split("\n")[0]);
                }
                nanos.put(name, System.nanoTime() - start);
            }
            answer.set("nanos", nanos);
            out.write(JSON.writeValueAsString(answer));
            out.write('\n');
        }
        out.flush();
    }

    /** A new assignor each time, because a new leader has one: assignors remember the latest generation. */
    static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    static JsonNode assign(JsonNode group, String name) {
        List<String> topics = new ArrayList<>();
        group.get("topics").forEach(topic -> topics.add(topic.get(0).asText()));
        Map<String, Subscription> subscriptions = new HashMap<>();
        List<String> members = new ArrayList<>();
        for (JsonNode member : group.get("members")) {
            members.add(member.get("id").asText());
            Subscription subscription = subscription(member, name, topics);
            subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance").asText(null)));
            subscriptions.put(member.get("id").asText(), subscription);
        }
        Map<String, ConsumerPartitionAssignor.Assignment> dealt =
            assignor(name).assign(cluster(group, topics), new GroupSubscription(subscriptions)).groupAssignment();
        return owners(group, topics, members, subscriptions, dealt);
    }

    static Subscription subscription(JsonNode member, String name, List<String> topics) {
        List<String> wanted = new ArrayList<>();
        member.get("topics").forEach(topic -> wanted.add(topics.get(topic.asInt())));
        List<TopicPartition> owned = new ArrayList<>();
        for (JsonNode part : name.equals("cooperative-sticky") ? member.get("owned") : JSON.createArrayNode())
            for (JsonNode partition : part.get(1))
                owned.add(new TopicPartition(topics.get(part.get(0).asInt()), partition.asInt()));
        String data = member.path(name).asText(null);
        ByteBuffer bytes = data == null ? null : ByteBuffer.wrap(HexFormat.of().parseHex(data));
        Optional<String> rack = Optional.ofNullable(member.get("rack").asText(null)).filter(r -> !r.isEmpty());
        return new Subscription(wanted, bytes, owned, member.get("generation").asInt(), rack);
    }

    /** Each rack has one broker; a partition has a replica on the broker of each of its racks. */
    static Cluster cluster(JsonNode group, List<String> topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (JsonNode topic : group.get("topics")) {
            int number = 0;
            for (JsonNode racks : topic.get(1)) {
                List<Node> replicas = new ArrayList<>();
                for (char rack : racks.asText().toCharArray())
                    replicas.add(nodes.computeIfAbsent(String.valueOf(rack), r -> new Node(r.charAt(0), "h", 1, r)));
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.get(0).asText(), number++, Node.noNode(), all, all));
            }
        }
        return new Cluster("id", nodes.values(), partitions, Set.of(), Set.of());
    }

    /** For each topic the index of each partition's owner among the members, -1 for none; or the fault of the assignment. */
    static JsonNode owners(
        JsonNode group, List<String> topics, List<String> members,
        Map<String, Subscription> subscriptions, Map<String, ConsumerPartitionAssignor.Assignment> dealt
    ) {
        Map<String, int[]> owners = new HashMap<>();
        for (JsonNode topic : group.get("topics")) {
            int[] none = new int[topic.get(1).size()];
            Arrays.fill(none, -1);
            owners.put(topic.get(0).asText(), none);
        }
        for (int place = 0; place < members.size(); place++) {
            Set<String> wanted = new HashSet<>(subscriptions.get(members.get(place)).topics());
            for (TopicPartition tp : dealt.get(members.get(place)).partitions()) {
                if (!wanted.contains(tp.topic()))
                    throw new IllegalStateException("invalid: " + tp + " for a member that is not subscribed to it");
                if (owners.get(tp.topic())[tp.partition()] != -1)
                    throw new IllegalStateException("invalid: " + tp + " for two members");
                owners.get(tp.topic())[tp.partition()] = place;
            }
        }
        ArrayNode all = JSON.createArrayNode();
        for (String topic : topics) {
            ArrayNode each = all.addArray();
            for (int owner : owners.get(topic))
                each.add(owner);
        }
        return all;
    }
}
