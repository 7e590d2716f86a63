import java.util.Properties;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** Prints the ACLs, users, quotas and delegation tokens that Kafka's own Admin finds. Input: properties; output: one JSON document. */
public class Rights {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        JsonNode order = JSON.readTree(System.in);
        order.fields().forEachRemaining(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        ObjectNode found = JSON.createObjectNode();
        try (Admin admin = Admin.create(properties)) {
            ArrayNode acls = found.putArray("acls");
            for (var acl : admin.describeAcls(AclBindingFilter.ANY).values().get()) {
                ArrayNode row = acls.addArray().add(acl.entry().principal()).add(acl.entry().operation().name());
                row.add(acl.pattern().resourceType().name()).add(acl.pattern().name());
                row.add(acl.entry().permissionType().name()).add(acl.entry().host()).add(acl.pattern().patternType().name());
            }
            ObjectNode users = found.putObject("users");
            admin.describeUserScramCredentials().all().get().forEach((name, user) -> {
                ArrayNode rows = users.putArray(name);
                user.credentialInfos().forEach(info -> rows.addArray().add(info.mechanism().mechanismName()).add(info.iterations()));
            });
            ArrayNode quotas = found.putArray("quotas");
            admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().forEach((entity, values) -> {
                ObjectNode row = quotas.addObject();
                entity.entries().forEach((kind, name) -> row.withObject("/entity").put(kind, name));
                values.forEach((name, value) -> row.withObject("/values").put(name, value));
            });
            ArrayNode tokens = found.putArray("tokens");
            for (var token : admin.describeDelegationToken().delegationTokens().get()) {
                ObjectNode row = tokens.addObject().put("password", token.hmacAsBase64String()).put("id", token.tokenInfo().tokenId());
                row.put("owner", token.tokenInfo().ownerAsString()).put("requester", token.tokenInfo().tokenRequesterAsString());
                row.put("issued", token.tokenInfo().issueTimestamp()).put("expires", token.tokenInfo().expiryTimestamp());
                row.put("max", token.tokenInfo().maxTimestamp());
                token.tokenInfo().renewersAsString().forEach(row.putArray("renewers")::add);
            }
        }
        System.out.println(JSON.writeValueAsString(found));
    }
}
