import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import software.amazon.event.ruler.Machine;

/** Measures Event Ruler: Driver RULES EVENTS ROUNDS SLICE_S SAMPLE PATIENCE_S; one line of JSON comes out. */
public final class Driver {
    private static List<String> events;
    private static Machine machine;
    private static long matches;

    public static void main(String[] arguments) throws Exception {
        List<String> rules = Files.readAllLines(Path.of(arguments[0]));
        events = Files.readAllLines(Path.of(arguments[1]));
        int rounds = Integer.parseInt(arguments[2]);
        double slice = Double.parseDouble(arguments[3]);
        int sample = Integer.parseInt(arguments[4]);
        double patience = Double.parseDouble(arguments[5]);
        Map<String, Object> answer = new LinkedHashMap<>();
        machine = new Machine();
        long before = used();
        long started = System.nanoTime();
        for (int number = 0; number < rules.size(); number++) {
            machine.addRule(Integer.toString(number), rules.get(number));
            if (since(started) > patience) {
                answer.put("too_slow", "adding " + number + " of " + rules.size() + " rules took " + (int) patience + " s");
                print(answer);
                return;
            }
        }
        answer.put("fill_s", since(started));
        answer.put("bytes", used() - before);
        started = System.nanoTime();
        List<List<Integer>> found = new ArrayList<>();
        for (int number = 0; number < sample; number++) {
            List<Integer> ids = new ArrayList<>();
            for (String id : machine.rulesForJSONEvent(events.get(number))) {
                ids.add(Integer.parseInt(id));
            }
            found.add(ids);
            if (since(started) > patience) {
                answer.put("too_slow", "matching " + (number + 1) + " events took " + (int) patience + " s");
                print(answer);
                return;
            }
        }
        answer.put("found", found);
        run(2.0); // the virtual machine compiles what is hot
        List<Double> rates = new ArrayList<>();
        for (int round = 0; round < rounds; round++) {
            rates.add(run(slice));
        }
        answer.put("rates", rates);
        print(answer);
    }

    /** Events per second of the core that this thread has, over about so many, one at a time: others wait for it, too. */
    private static double run(double slice) throws Exception {
        int done = 0;
        double started = core();
        double took;
        do {
            int end = Math.min(events.size(), done % events.size() + 16);
            for (int number = done % events.size(); number < end; number++, done++) {
                matches += machine.rulesForJSONEvent(events.get(number)).size();
            }
            took = core() - started;
        } while (took < slice);
        return done / took;
    }

    /** Seconds of a core that this thread has used; those of the compiler and the collector are not held against it. */
    private static double core() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() / 1e9;
    }

    private static double since(long started) {
        return (System.nanoTime() - started) / 1e9;
    }

    private static long used() {
        for (int times = 0; times < 3; times++) {
            System.gc();
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    private static void print(Map<String, Object> answer) throws Exception {
        System.out.println(new ObjectMapper().writeValueAsString(answer));
    }
}
