import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.util.BloomFilter;

/**
 * What Java makes of expressions. Reads a file of lines in Base64: first properties ("name\1value\2..."), then an empty
 * line, then expressions, an empty line, and texts for Bloom filters. Prints for each expression "results" and a letter
 * for each set of properties (T, F, N for null, E for an exception), or "error" and why it does not compile.
 */
public class Filters {
    public static void main(String[] args) throws Exception {
        List<List<String>> parts = new ArrayList<>();
        parts.add(new ArrayList<>());
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            if (line.isEmpty()) {
                parts.add(new ArrayList<>());
            } else {
                byte[] text = Base64.getDecoder().decode(line.substring(1));
                parts.get(parts.size() - 1).add(new String(text, StandardCharsets.UTF_8));
            }
        }
        for (String expression : parts.get(1)) {
            print(judge(expression, parts.get(0)));
        }
        for (int[] sizes : new int[][] {{20, 32}, {20, 64}, {1, 100}, {50, 8}, {99, 1}}) {
            BloomFilter filter = BloomFilter.createByFn(sizes[0], sizes[1]);
            for (String text : parts.get(2)) {
                StringBuilder line = new StringBuilder("bits\t");
                line.append(sizes[0]).append(' ').append(sizes[1]).append(' ').append(filter.getM());
                for (int position : filter.calcBitPositions(text)) {
                    line.append(' ').append(position);
                }
                print(line.toString());
            }
        }
    }

    private static void print(String line) {
        System.out.println(Base64.getEncoder().encodeToString(line.getBytes(StandardCharsets.UTF_8)));
    }

    private static String judge(String text, List<String> properties) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (Throwable error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            return "error\t" + String.valueOf(cause.getMessage()).split("\n")[0].trim();
        }
        StringBuilder results = new StringBuilder("results\t");
        for (String each : properties) {
            results.append(evaluate(expression, each));
        }
        return results.toString();
    }

    private static char evaluate(Expression expression, String properties) {
        final Map<String, Object> values = new HashMap<>();
        for (String property : properties.split("\2")) {
            int at = property.indexOf('\1');
            if (at > 0) {
                values.put(property.substring(0, at), property.substring(at + 1));
            }
        }
        try {
            Object result = expression.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return values.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return values;
                }
            });
            return result == null ? 'N' : Boolean.TRUE.equals(result) ? 'T' : Boolean.FALSE.equals(result) ? 'F' : '?';
        } catch (Throwable error) {
            return 'E';
        }
    }
}
