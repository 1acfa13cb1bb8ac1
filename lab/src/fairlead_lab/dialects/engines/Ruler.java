import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import software.amazon.event.ruler.Machine;

/** For each line {"text", "event"} of a file: whether Event Ruler matches the event, or that it refuses the pattern. */
public final class Ruler {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            JsonNode asked = json.readTree(line);
            String answer;
            try {
                Machine machine = Machine.builder().build();
                machine.addRule("rule", asked.get("text").asText());
                answer = machine.rulesForJSONEvent(asked.get("event").toString()).isEmpty() ? "false" : "true";
            } catch (Exception refusal) {
                answer = "\"refused\"";
            }
            System.out.println(answer);
        }
    }
}
