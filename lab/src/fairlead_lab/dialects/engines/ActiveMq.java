import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.filter.MessageEvaluationContext;
import org.apache.activemq.selector.SelectorParser;

/** For each line {"text", "event"} of a file: whether ActiveMQ's selector accepts the message, or that it is refused. */
public final class ActiveMq {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            JsonNode asked = json.readTree(line);
            String answer;
            try {
                MessageEvaluationContext context = new MessageEvaluationContext();
                context.setMessageReference(message(asked.get("event")));
                answer = SelectorParser.parse(asked.get("text").asText()).matches(context) ? "true" : "false";
            } catch (Exception | Error refusal) {
                answer = "\"refused\"";
            }
            System.out.println(answer);
        }
    }

    private static ActiveMQMessage message(JsonNode event) throws Exception {
        ActiveMQMessage message = new ActiveMQMessage();
        for (Iterator<String> names = event.fieldNames(); names.hasNext();) {
            String name = names.next();
            JsonNode value = event.get(name);
            if (value.isTextual()) {
                message.setStringProperty(name, value.asText());
            } else if (value.isBoolean()) {
                message.setBooleanProperty(name, value.asBoolean());
            } else if (value.isIntegralNumber()) {
                message.setLongProperty(name, value.asLong());
            } else if (value.isNumber()) {
                message.setDoubleProperty(name, value.asDouble());
            }
        }
        return message;
    }
}
